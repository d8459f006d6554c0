import { type ErrorInfo, REDIS_FULL } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { JobQueues } from '@nereid/transport';

/** Whether there is room for one more job, or for lines of a batch, in Redis. */
export interface JobAdmission {
  /** Undefined where a job with that much data may be added, which then counts; else why not. Never rejects. */
  refusal(bytes: number): Promise<ErrorInfo | undefined>;
  /** As `refusal`, of what is still to come: nothing counts. */
  outlook(bytes: number): Promise<ErrorInfo | undefined>;
}

/** Beyond this share of `maxmemory` no job is taken: the rest is for the results of those that are accepted. */
const ADMIT_SHARE = 0.8;
/** What is known of the memory is asked anew after this. */
const LOOK_MS = 250;
/** Of a job beside its tensors, in Redis. */
const JOB_BYTES = 2_048;
/** A value takes more than its bytes: the allocator rounds up, a small tensor is base64. */
const BYTES_PER_BYTE = 1.35;

/**
 * Keeps Redis from filling up: by what it says of its memory a few times a second, and by what this gateway has added
 * since. Other gateways and producers of their own show at the next look.
 */
export function createJobAdmission(queues: Pick<JobQueues, 'memory' | 'url'>, clock: Clock): JobAdmission {
  let known: { readonly used: number; readonly max: number } | undefined;
  let added = 0;
  let lookedUs = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;

  const look = async () => {
    lookedUs = clock.nowUs();
    const before = added;
    try {
      known = await queues.memory();
      added -= before;
    } catch {
      // Redis is away, which the add itself will tell.
      known = undefined;
      added = 0;
    }
  };

  /** What so much data would take; undefined where nobody knows of what. */
  const judge = async (bytes: number): Promise<ErrorInfo | number | undefined> => {
    if (clock.nowUs() - lookedUs >= LOOK_MS * 1000) {
      looking ??= look().finally(() => {
        looking = undefined;
      });
    }
    // Nobody adds by a figure of long ago.
    await looking;
    if (known === undefined) return undefined;
    const size = bytes * BYTES_PER_BYTE + JOB_BYTES;
    const { used, max } = known;
    return used + added + size > max * ADMIT_SHARE ? tooFull(queues.url, used, max) : size;
  };

  return {
    async refusal(bytes) {
      const verdict = await judge(bytes);
      if (typeof verdict !== 'number') return verdict;
      added += verdict;
      return undefined;
    },
    async outlook(bytes) {
      const verdict = await judge(bytes);
      return typeof verdict === 'number' ? undefined : verdict;
    },
  };
}

function tooFull(url: string, used: number, max: number): ErrorInfo {
  const share = Math.floor((used / max) * 100);
  return {
    code: 'UNAVAILABLE',
    message: `Redis at ${url} uses ${share} % of its maxmemory, and takes nothing that would bring it above ${ADMIT_SHARE * 100} %: wait until jobs have ended or results have expired`,
    reason: REDIS_FULL,
  };
}
