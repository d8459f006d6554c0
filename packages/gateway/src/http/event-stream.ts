import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { endAfterAnswers } from './current-answer.ts';
import { addBytes, dropBytes, type RequestBytes } from './request-bytes.ts';

/** Whose answer is a stream of server-sent events. */
export interface EventReader {
  readonly reply: FastifyReply;
  /** What the request holds. */
  readonly account: RequestBytes;
  /** That the client has left. */
  readonly signal: AbortSignal;
  /** True once the server is stopping: answers then end their connection. */
  readonly closing: () => boolean;
}

/** An answer that has begun. */
export interface EventStream {
  /** Resolves once the client has read enough for more; false where it has left. */
  write(text: Buffer | string): Promise<boolean>;
  end(): void;
}

const CONTENT_TYPE = 'text/event-stream; charset=utf-8';

export function openEventStream({ reply, account, signal, closing }: EventReader, status: number): EventStream {
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  raw.writeHead(status, ['Content-Type', CONTENT_TYPE, 'Cache-Control', 'no-cache']);
  return {
    async write(text) {
      if (signal.aborted || raw.destroyed) return false;
      if (raw.write(text)) return true;
      addBytes(account, Buffer.byteLength(text));
      if (!(await isRead(raw, signal))) return false;
      dropBytes(account);
      return true;
    },
    end() {
      // Its header may have promised to keep the connection, before the server began to stop.
      if (closing() && raw.socket !== null) endAfterAnswers(raw.socket);
      raw.end();
    },
  };
}

/**
 * Waits until the client has read what was written; false where it has left, of which a response behind
 * others of its connection has no event of its own.
 */
function isRead(raw: ServerResponse, left: AbortSignal): Promise<boolean> {
  return once(raw, 'drain', { signal: left }).then(
    () => true,
    () => false,
  );
}
