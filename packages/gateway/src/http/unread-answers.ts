import type { Socket } from 'node:net';
import type { Clock, Log, Timer } from '@nereid/runtime';

/** How often connections are looked at. */
const LOOK_INTERVAL_MS = 5_000;

export interface UnreadAnswersParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly connections: () => ReadonlySet<Socket>;
  /** How long a client may leave what waits to be read of its answers where it was. */
  readonly timeoutMs: number;
}

/** Ends connections whose clients do not read their answers: these stay in memory until then. */
export interface UnreadAnswers {
  /** Call at each new connection; as long as there is one all are looked at. */
  watch(): void;
  close(): void;
}

/** How much of its answers a client had taken when it was last seen to take any. */
interface Standstill {
  readonly taken: number;
  readonly sinceUs: number;
}

export function createUnreadAnswers(parts: UnreadAnswersParts): UnreadAnswers {
  const { clock, log, connections, timeoutMs } = parts;
  const standstills = new WeakMap<Socket, Standstill>();
  let timer: Timer | undefined;
  let closed = false;

  const look = (socket: Socket, nowUs: number) => {
    // Of what was written to it, what the system has not taken yet.
    const unread = socket.writableLength;
    if (unread === 0) {
      standstills.delete(socket);
      return;
    }
    const taken = socket.bytesWritten - unread;
    const before = standstills.get(socket);
    if (before === undefined || before.taken !== taken) {
      standstills.set(socket, { taken, sinceUs: nowUs });
    } else if (nowUs - before.sinceUs >= timeoutMs * 1000) {
      log.warn({ bytes: unread, timeout_ms: timeoutMs }, 'connection ended: its client does not read its answers');
      socket.destroy();
    }
  };

  const watch = () => {
    if (timer !== undefined || closed) return;
    timer = clock.at(clock.nowUs() + Math.min(LOOK_INTERVAL_MS, timeoutMs) * 1000, () => {
      timer = undefined;
      const nowUs = clock.nowUs();
      for (const socket of connections()) look(socket, nowUs);
      if (connections().size > 0) watch();
    });
  };

  return {
    watch,
    close() {
      closed = true;
      timer?.cancel();
    },
  };
}
