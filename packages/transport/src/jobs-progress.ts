export interface ProgressLineParts {
  /** Puts one value into Redis; called in order, several at a time. */
  readonly write: (value: unknown) => Promise<unknown>;
  /** So many bytes are there. */
  readonly wrote: (bytes: number) => void;
  /** After a failure: waits, and says whether to try again. */
  readonly again: (failure: unknown) => Promise<boolean>;
}

/** What is told of a job on its way to Redis: in order, repeated until it is there. A repeated value may be told twice. */
export interface ProgressLine {
  /** False at the bound: the value is not taken. */
  tell(value: unknown, bytes: number): boolean;
  /** Resolves once nothing waits any more. */
  settled(): Promise<void>;
  /** Whatever waits is for nobody: another runs the job. */
  drop(): void;
}

/** Values of one job that wait; the model is faster than Redis by then, or Redis is away. */
const WAITING_MAX = 16_384;
/** Of those; the value that passes it is still taken. */
const WAITING_BYTES_MAX = 67_108_864;
const WRITES_AT_ONCE_MAX = 64;

interface Told {
  readonly value: unknown;
  readonly bytes: number;
}

export function createProgressLine({ write, wrote, again }: ProgressLineParts): ProgressLine {
  let waiting: Told[] = [];
  let waitingBytes = 0;
  let writing: Promise<void> | undefined;

  const clear = () => {
    waiting = [];
    waitingBytes = 0;
  };

  const writeAll = async () => {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, WRITES_AT_ONCE_MAX);
      const results = await Promise.allSettled(batch.map(({ value }) => write(value)));
      // Dropped meanwhile.
      if (waiting[0] !== batch[0]) continue;
      const failed = results.findIndex(({ status }) => status === 'rejected');
      const written = waiting.splice(0, failed < 0 ? batch.length : failed);
      const bytes = written.reduce((sum, each) => sum + each.bytes, 0);
      waitingBytes -= bytes;
      wrote(bytes);
      const result = results[failed];
      if (result?.status === 'rejected' && !(await again(result.reason))) clear();
    }
    writing = undefined;
  };

  return {
    tell(value, bytes) {
      if (waiting.length >= WAITING_MAX || waitingBytes >= WAITING_BYTES_MAX) return false;
      waiting.push({ value, bytes });
      waitingBytes += bytes;
      writing ??= writeAll();
      return true;
    },
    settled: () => writing ?? Promise.resolve(),
    drop: clear,
  };
}
