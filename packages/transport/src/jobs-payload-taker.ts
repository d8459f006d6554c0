import {
  blobRefs,
  isJobCancelled,
  isJsonObject,
  type JobBlobs,
  parseFailedReason,
  RESULT_TTL_S_MAX,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { JobTaker, TakenJob, TakeOptions } from './jobs.ts';
import { isBuried } from './jobs-letters.ts';
import type { JobPayloads } from './jobs-payloads.ts';
import { untilDone } from './jobs-until.ts';

export interface PayloadTakerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly model: string;
  readonly payloads: Pick<JobPayloads, 'take' | 'write' | 'expire' | 'remove'>;
  /** Whether the job has an end, or is gone. */
  readonly isOver: (id: string) => Promise<boolean>;
}

/** No more jobs are taken while those that are held have payloads of so much. */
const HELD_BYTES_MAX = 268_435_456;
const TTL_S_DEFAULT = 3_600;
const NONE: JobBlobs = new Map();

/** What is known of a held job that has payloads. */
interface Held {
  readonly refs: readonly string[];
  readonly ttlS: number;
  /** Undefined while they are read. */
  bytes: number | undefined;
}

/**
 * A taker that hands jobs on with the payloads that they name, in the order in which they were taken, and puts those of
 * results down before it completes their jobs. Who dies in between leaves a job that runs again. A job that names none
 * and does not wait behind one costs nothing.
 */
export function withPayloads(
  make: (options: TakeOptions) => JobTaker,
  options: TakeOptions,
  { clock, log, model, payloads, isOver }: PayloadTakerParts,
): JobTaker {
  /** Of those that have payloads, or wait for others that have. */
  const held = new Map<string, Held>();
  const ending = new Set<Promise<void>>();
  let tail: Promise<void> | undefined;
  let coming = 0;
  let bytes = 0;
  let closing = false;

  const letGo = (id: string): Held | undefined => {
    const known = held.get(id);
    held.delete(id);
    if (known?.bytes === undefined) return known;
    bytes -= known.bytes;
    return known;
  };

  /** Until Redis has answered; undefined where the taker is closed first. */
  const untilAnswered = <T>(id: string, step: () => Promise<T>): Promise<T | undefined> =>
    untilDone(clock, step, (error) => {
      log.debug({ err: error, model, job: id }, 'payloads of a job, trying again');
      return !closing;
    });

  const handOn = (job: TakenJob, known: Held, blobs: JobBlobs | undefined) => {
    // Its lock was lost meanwhile.
    if (held.get(job.id) !== known) return;
    known.bytes = sizeOf(blobs ?? NONE);
    bytes += known.bytes;
    if (blobs !== undefined && options.taken({ ...job, blobs })) return;
    letGo(job.id);
    void taker.putBack(job.id, 0);
  };

  const taken = (job: TakenJob): boolean => {
    const refs = isJsonObject(job.data) ? blobRefs(job.data.inputs) : [];
    if (refs.length === 0 && tail === undefined) return options.taken(job);
    const known: Held = { refs, ttlS: ttlOf(job.data), bytes: undefined };
    held.set(job.id, known);
    coming++;
    // What is cancelled reads nothing, and is still to let go of it.
    const isUnread = refs.length === 0 || job.deferredFailure !== undefined || isJobCancelled(job.data);
    const reading = isUnread ? Promise.resolve(NONE) : untilAnswered(job.id, () => payloads.take(model, job.id, refs));
    const turn = (tail ?? Promise.resolve())
      .then(() => reading)
      .then((blobs) => {
        coming--;
        handOn(job, known, blobs);
      })
      .finally(() => {
        if (tail === turn) tail = undefined;
      });
    tail = turn;
    return true;
  };

  const taker = make({
    ...options,
    room: () => (bytes >= HELD_BYTES_MAX ? 0 : options.room() - coming),
    taken,
    lost(id) {
      const known = letGo(id);
      if (known === undefined || known.bytes !== undefined) options.lost(id);
    },
  });

  const after = (step: Promise<void>): Promise<void> => {
    const tracked = step.finally(() => ending.delete(tracked));
    ending.add(tracked);
    return tracked;
  };

  /** Whose lock was lost has perhaps not ended it, so it is looked up. What gets lost of this is swept later. */
  const onceOver = (id: string, known: Held | undefined, step: (refs: readonly string[]) => Promise<void>) => {
    if (known === undefined || known.refs.length === 0) return;
    // Given up once the taker closes, or it would wait for a Redis that is away.
    void untilAnswered(id, async () => {
      if (await isOver(id)) await step(known.refs);
    });
  };

  return {
    get held() {
      return taker.held;
    },
    more: () => taker.more(),
    progress: (id, value, size) => taker.progress(id, value, size),
    complete(id, result, note, beside) {
      const known = letGo(id);
      if (known === undefined && beside === undefined) return taker.complete(id, result, note);
      const step = async () => {
        if (beside !== undefined) {
          const { blobs, ttlS } = beside;
          const isDown = await untilAnswered(id, async () => {
            await payloads.write(blobs, ttlS);
            return true;
          });
          // Else it goes back, and runs again.
          if (isDown !== true) return;
        }
        await taker.complete(id, result, note);
        // Nobody asks for them again, and results of others need the room.
        onceOver(id, known, (refs) => payloads.remove(model, id, refs));
      };
      return after(step());
    },
    fail(id, reason, retry, note) {
      const known = letGo(id);
      // One that may run again, or be replayed, still needs them: what then is nobody's is swept.
      if (known === undefined || isBuried(parseFailedReason(reason))) return taker.fail(id, reason, retry, note);
      // It may be retried as long as its failure is told.
      return taker
        .fail(id, reason, retry, note)
        .then(() => onceOver(id, known, (refs) => payloads.expire(model, id, refs, known.ttlS)));
    },
    putBack(id, delayMs) {
      letGo(id);
      return taker.putBack(id, delayMs);
    },
    async close() {
      closing = true;
      // A job whose result is being put down ends, rather than going back and running a second time.
      await Promise.allSettled(ending);
      await taker.close();
    },
  };
}

function sizeOf(blobs: JobBlobs): number {
  let bytes = 0;
  for (const data of blobs.values()) bytes += data.byteLength;
  return bytes;
}

function ttlOf(data: unknown): number {
  const ttlS = isJsonObject(data) ? data.result_ttl_s : undefined;
  return Number.isSafeInteger(ttlS) && (ttlS as number) > 0
    ? Math.min(ttlS as number, RESULT_TTL_S_MAX)
    : TTL_S_DEFAULT;
}
