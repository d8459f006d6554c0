import { checkJob, type ModelRecord } from '@nereid/config';
import { blobRefs, decodeJobData, isJobCancelled, isJsonObject, NereidError, thrownError } from '@nereid/protocol';
import {
  type DeadLetter,
  type Directory,
  type JobQueues,
  parsePublicJobId,
  type ReplayOutcome,
  type StoredJob,
} from '@nereid/transport';
import type { Jobs } from './jobs.ts';
import { STORED_LIMITS } from './stored-limits.ts';

export interface LettersQuery {
  /** '' for all. */
  readonly model: string;
  readonly limit: number;
  /** `next` of an earlier answer. */
  readonly after: string | undefined;
}

export interface LettersPage {
  readonly letters: readonly DeadLetter[];
  /** Goes into `after` for what is behind; undefined where that is nothing. */
  readonly next: string | undefined;
}

export interface Replayed {
  readonly outcome: ReplayOutcome;
  /** Undefined where it is gone already: its producer does not keep it. */
  readonly job: StoredJob | undefined;
}

/** Dead letters as admins see them. All reject with UNAVAILABLE where Redis does not answer. */
export interface JobLetters {
  /** By model, the oldest first. Throws INVALID_ARG for an `after` that is none. */
  list(query: LettersQuery): Promise<LettersPage>;
  find(publicId: string): Promise<DeadLetter | undefined>;
  /**
   * Runs the job again, with these data or its own; undefined where there is no such letter. Throws what a submission of
   * these data would, and NOT_FOUND where the model is not known or, reason `expired`, its own inputs are gone.
   */
  replay(publicId: string, data: unknown): Promise<Replayed | undefined>;
  remove(publicId: string): Promise<boolean>;
}

export interface JobLettersParts {
  readonly queues: Pick<JobQueues, 'letters' | 'find' | 'payloads'>;
  readonly directory: Directory<ModelRecord>;
  readonly model: Jobs['model'];
}

/** A page looks at so many models: most have no letters. */
const MODELS_AT_ONCE_MAX = 100;

export function createJobLetters({ queues, directory, model: modelOf }: JobLettersParts): JobLetters {
  const { letters } = queues;

  /** Refuses what would fail once it is taken: its letter is gone by then. */
  const checkData = async (model: string, data: unknown) => {
    const blobs = await queues.payloads.read(isJsonObject(data) ? blobRefs(data.inputs) : []);
    const decoded = decodeJobData(data, { modelName: model, limits: STORED_LIMITS, blobs });
    const known = modelOf(model, decoded.request.modelVersion);
    if (!known.ok) throw thrownError(known.error);
    const error = checkJob(known.signature, decoded.request);
    if (error !== null) throw thrownError({ ...error, field: error.field ?? 'data' });
    if (!isJobCancelled(data)) return;
    throw thrownError({
      code: 'INVALID_ARG',
      message: "leave 'cancelled' out: the job would not run",
      field: 'cancelled',
    });
  };

  /** What its data name is to be there for the run to come. */
  const keepInputs = async (model: string, id: string, publicId: string) => {
    const letter = await letters.find(model, id);
    const refs = isJsonObject(letter?.data) ? blobRefs(letter.data.inputs) : [];
    if (refs.length === 0 || (await queues.payloads.keep(model, id, refs))) return;
    const text = `the inputs of dead letter '${publicId}' are not kept any more; replay it with 'data' that has inputs`;
    throw new NereidError('NOT_FOUND', text, { field: 'data', reason: 'expired' });
  };

  return {
    async list({ model, limit, after }) {
      const start = after === undefined ? undefined : readPosition(after);
      const names =
        model === ''
          ? directory
              .records()
              .map(({ name }) => name)
              .toSorted()
          : [model];
      const from = start === undefined ? names : names.filter((name) => name >= start.model);
      const found: DeadLetter[] = [];
      for (const [index, name] of from.entries()) {
        if (index >= MODELS_AT_ONCE_MAX) return { letters: found, next: position(name, undefined) };
        const behind = name === start?.model ? start.id : undefined;
        found.push(...(await letters.list(name, behind, limit - found.length)));
        const last = found.at(-1);
        if (found.length >= limit && last !== undefined) return { letters: found, next: position(last.model, last.id) };
      }
      return { letters: found, next: undefined };
    },
    async find(publicId) {
      const known = parsePublicJobId(publicId);
      return known && letters.find(known.model, known.id);
    },
    async replay(publicId, data) {
      const known = parsePublicJobId(publicId);
      if (known === undefined) return undefined;
      if (data === undefined) await keepInputs(known.model, known.id, publicId);
      else await checkData(known.model, data);
      const outcome = await letters.replay(known.model, known.id, data);
      return outcome && { outcome, job: await queues.find(known.model, known.id) };
    },
    async remove(publicId) {
      const known = parsePublicJobId(publicId);
      return known !== undefined && letters.remove(known.model, known.id);
    },
  };
}

/** Behind the letter, or at the model's first. */
function position(model: string, id: string | undefined): string {
  return Buffer.from(JSON.stringify(id === undefined ? [model] : [model, id])).toString('base64url');
}

function readPosition(text: string): { readonly model: string; readonly id: string | undefined } {
  try {
    const [model, id] = JSON.parse(Buffer.from(text, 'base64url').toString()) as readonly unknown[];
    if (typeof model === 'string' && (id === undefined || typeof id === 'string')) return { model, id };
  } catch {
    // Said below.
  }
  throw new NereidError('INVALID_ARG', `after must be the 'next' of an earlier answer, got: ${text}`, {
    field: 'after',
  });
}
