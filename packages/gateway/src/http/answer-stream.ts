import { once } from 'node:events';
import type { FastifyReply } from 'fastify';
import { endAfterAnswers } from './current-answer.ts';

/** Whose answer is sent part by part. */
interface AnswerReader {
  readonly reply: FastifyReply;
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

/** Begins an answer with status 200; `headers`: names and values in turn. */
export function openAnswerStream(
  { reply, signal, closing }: AnswerReader,
  contentType: string,
  headers: readonly string[] = [],
): AnswerStream {
  const { raw } = reply.hijack();
  if (closing()) raw.setHeader('Connection', 'close');
  raw.writeHead(200, ['Content-Type', contentType, 'Cache-Control', 'no-cache', ...headers]);
  return {
    async write(part) {
      if (signal.aborted || raw.destroyed) return false;
      if (raw.write(part)) return true;
      return once(raw, 'drain', { signal }).then(
        () => true,
        () => false,
      );
    },
    end() {
      // Its header may have promised to keep the connection, before the server began to stop.
      if (closing() && raw.socket !== null) endAfterAnswers(raw.socket);
      raw.end();
    },
  };
}
