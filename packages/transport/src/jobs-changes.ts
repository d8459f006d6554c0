import { blobRefs, isJsonObject, NereidError } from '@nereid/protocol';
import type { Job } from 'bullmq';
import type { StoredJob } from './jobs.ts';
import { readLetter, removeLetter } from './jobs-letters.ts';
import { publicJobId } from './jobs-names.ts';
import type { JobPayloads } from './jobs-payloads.ts';
import type { JobsLink } from './jobs-safe-writes.ts';

export interface JobChangesParts {
  /** Of what is promised once it resolves. */
  readonly safe: JobsLink;
  readonly find: (model: string, id: string) => Promise<StoredJob | undefined>;
  readonly payloads: Pick<JobPayloads, 'keep' | 'remove'>;
}

/** What clients change of jobs that are there. A repeated change changes nothing more. */
export interface JobChanges {
  /**
   * Marks a job that is not over as cancelled, for whoever takes it, and lets a delayed one be taken at once. The job
   * as it then is, undefined where there is none: one that runs is to be ended by its owner.
   */
  cancel(model: string, id: string): Promise<StoredJob | undefined>;
  /**
   * Lets a failed job run anew, with all its attempts; its dead letter goes. The job as it then is. Rejects with NOT_FOUND, reason `expired`,
   * where its inputs are not kept any more.
   */
  retry(model: string, id: string): Promise<StoredJob | undefined>;
  /** Removes a job that is over with all that belongs to it; false where somebody runs it (again). */
  remove(model: string, id: string): Promise<boolean>;
}

export function createJobChanges({ safe, find, payloads }: JobChangesParts): JobChanges {
  const { ask } = safe;
  const read = async (model: string, id: string) => (await safe.queue(model).getJob(id)) as Job | undefined;

  return {
    async cancel(model, id) {
      const before = await find(model, id);
      if (before === undefined || before.finishedMs !== undefined) return before;
      await ask(async () => {
        const job = await read(model, id);
        // Any other data are no request: that job fails once it is taken.
        if (job === undefined || !isJsonObject(job.data)) return;
        await unlessRefused(job.updateData({ ...job.data, cancelled: true }));
        // Looked up afterwards, so that one which is delayed meanwhile is not missed.
        if (await job.isDelayed()) await unlessRefused(job.promote());
      });
      return find(model, id);
    },
    async retry(model, id) {
      const before = await find(model, id);
      if (before?.state !== 'failed') return before;
      // It may wait for longer than what ended is kept.
      if (!(await payloads.keep(model, id, refsIn(before.data, 'inputs')))) throw inputsGone(model, id);
      let letter: Job | undefined;
      await ask(async () => {
        const job = await read(model, id);
        if (job !== undefined && (await job.isFailed())) {
          letter = await readLetter(safe, model, id);
          await runAnew(job);
        }
        // That of a repeated question, too. It may have died again by now.
        if (letter !== undefined) await removeLetter(safe, model, letter);
      });
      return find(model, id);
    },
    async remove(model, id) {
      const refs = new Set<string>();
      const isRemoved = await ask(async () => {
        const job = await read(model, id);
        if (job === undefined) return true;
        for (const ref of refsIn(job.data, 'inputs')) refs.add(ref);
        for (const ref of refsIn(job.returnvalue, 'outputs')) refs.add(ref);
        // A flow's children are jobs of their own.
        return unlessRefused(job.remove({ removeChildren: false }));
      });
      if (isRemoved) await payloads.remove(model, id, [...refs]);
      return isRemoved;
    },
  };
}

async function runAnew(job: Job): Promise<void> {
  // Before it can be taken.
  if (isJsonObject(job.data) && job.data.cancelled !== undefined) {
    const { cancelled: _, ...data } = job.data;
    await unlessRefused(job.updateData(data));
  }
  await unlessRefused(job.retry('failed', { resetAttemptsMade: true, resetAttemptsStarted: true }));
}

/** Of the tensors in that member. */
function refsIn(value: unknown, member: 'inputs' | 'outputs'): readonly string[] {
  return isJsonObject(value) ? blobRefs(value[member]) : [];
}

function inputsGone(model: string, id: string): NereidError {
  const text = `the inputs of job '${publicJobId(model, id)}' are not kept any more; submit it anew`;
  return new NereidError('NOT_FOUND', text, { reason: 'expired' });
}

/** False where BullMQ says that the job is gone or is not in the state for this: by a number, or that it is locked. */
export async function unlessRefused(change: Promise<unknown>): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: string };
    if (typeof code === 'number' || message?.includes('locked by another worker') === true) return false;
    throw error;
  }
}
