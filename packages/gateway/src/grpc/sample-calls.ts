/** Calls that a test serves; only tests import this. */
import { CANCELLED } from '@nereid/protocol';
import type { BidiCall, GrpcCall } from './transport.ts';

export const ECHO = '/t.T/Echo';
export const WAIT = '/t.T/Wait';
export const CHAT = '/t.T/Chat';

/** Answers a message with itself. */
export const echo: GrpcCall = {
  kind: 'unary',
  path: ECHO,
  compressed: true,
  handle: (bytes) => ({ ok: true, value: bytes }),
};

export const chat = (handle: (call: BidiCall) => Promise<void>): GrpcCall => ({
  kind: 'stream',
  path: CHAT,
  compressed: true,
  handle,
});

/** Answers each message of a stream with itself. */
export const echoAll = chat(async (call) => {
  for await (const message of call.messages) await call.write(message);
});

/** What `Wait` waits for: a signal that aborts, or a release. */
export interface Waiting {
  readonly arrived: Promise<void>;
  readonly aborted: Promise<unknown>;
  release(): void;
}

export function waitCall(): { readonly call: GrpcCall; readonly waiting: Waiting } {
  let arrive: () => void;
  let abort: (why: unknown) => void;
  let release = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const aborted = new Promise((resolve) => {
    abort = resolve;
  });
  const call: GrpcCall = {
    kind: 'unary',
    path: WAIT,
    compressed: false,
    handle: (bytes, { signal }) =>
      new Promise((resolve) => {
        release = () => resolve({ ok: true, value: bytes });
        signal.addEventListener('abort', () => {
          abort(signal.reason);
          resolve({ ok: false, error: CANCELLED });
        });
        arrive();
      }),
  };
  return { call, waiting: { arrived, aborted, release: () => release() } };
}
