import type { ServerHttp2Stream } from 'node:http2';
import type { CallBytes } from './call-bytes.ts';
import type { CallStatus } from './call-status.ts';
import type { Plain } from './message-compression.ts';

/** Past these bounds the client is not read any more until its messages are. */
const UNREAD_MESSAGES_MAX = 16;
const UNREAD_BYTES_MAX = 4_194_304;

/** Messages of a stream on their way to the one who reads them. */
export interface MessageInbox {
  /** `wireBytes` is how it came. Of a call that has ended it takes nothing. */
  push(message: Plain | Promise<Plain>, wireBytes: number, isCompressed: boolean): void;
  /** After what is there already. Idempotent. */
  end(): void;
  /** Ends after the last message, and where one cannot be read. */
  readonly messages: AsyncIterable<Uint8Array>;
}

interface Entry {
  readonly message: Plain | Promise<Plain>;
  readonly wireBytes: number;
  readonly isCompressed: boolean;
}

/** `failed` is told why a message cannot be read. A message's bytes are released when it is read. */
export function createMessageInbox(
  stream: ServerHttp2Stream,
  account: CallBytes,
  failed: (status: CallStatus) => unknown,
): MessageInbox {
  const unread: Entry[] = [];
  let bytes = 0;
  let ended = false;
  let wake: (() => void) | undefined;

  const isFull = () => unread.length >= UNREAD_MESSAGES_MAX || bytes >= UNREAD_BYTES_MAX;

  const signal = () => {
    const waiting = wake;
    wake = undefined;
    waiting?.();
  };

  async function* messages(): AsyncGenerator<Uint8Array> {
    for (;;) {
      const entry = unread.shift();
      if (entry !== undefined) {
        bytes -= entry.wireBytes;
        if (stream.isPaused() && !isFull()) stream.resume();
        const message = await entry.message;
        if (!message.ok) {
          ended = true;
          failed(message.status);
          return;
        }
        account.release(entry.wireBytes + (entry.isCompressed ? message.bytes.byteLength : 0));
        yield message.bytes;
      } else if (ended) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  }

  return {
    push(message, wireBytes, isCompressed) {
      if (ended) return;
      unread.push({ message, wireBytes, isCompressed });
      bytes += wireBytes;
      if (isFull()) stream.pause();
      signal();
    },
    end() {
      ended = true;
      signal();
    },
    messages: messages(),
  };
}
