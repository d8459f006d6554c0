import { once } from 'node:events';
import type { FastifyReply } from 'fastify';
import { endAfterAnswers } from './current-answer.ts';
import { addBytes, dropBytes, type RequestBytes } from './request-bytes.ts';

/** Whose answer is sent part by part. */
export interface AnswerReader {
  readonly reply: FastifyReply;
  /** What the request holds, where what is not read yet counts. */
  readonly account?: RequestBytes | undefined;
  /** That the client has left. */
  readonly signal: AbortSignal;
  /** True once the server is stopping: answers then end their connection. */
  readonly closing: () => boolean;
}

/** An answer that has begun. */
export interface AnswerStream {
  /** Resolves once the client has read enough for more; false where it has left. */
  write(part: Uint8Array | string): Promise<boolean>;
  end(): void;
}

/** Begins an answer; `headers`: names and values in turn. */
export function openAnswerStream(
  { reply, account, signal, closing }: AnswerReader,
  contentType: string,
  headers: readonly string[] = [],
  status = 200,
): AnswerStream {
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  raw.writeHead(status, ['Content-Type', contentType, 'Cache-Control', 'no-cache', ...headers]);
  return {
    async write(part) {
      if (signal.aborted || raw.destroyed) return false;
      if (raw.write(part)) return true;
      if (account !== undefined) addBytes(account, Buffer.byteLength(part));
      if (!(await isRead(raw, signal))) return false;
      if (account !== undefined) dropBytes(account);
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
function isRead(raw: FastifyReply['raw'], left: AbortSignal): Promise<boolean> {
  return once(raw, 'drain', { signal: left }).then(
    () => true,
    () => false,
  );
}
