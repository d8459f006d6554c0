/** When a worker is asked what it holds, and what its answer says of messages lost (docs/protocol.md R28). */
import { type DescribedMessage, heldKey, UNLOADED, type VersionDescription } from '@nereid/protocol';
import type { OwnedModel, Question, WorkerView } from './owned-model.ts';

export interface ProbeTimes {
  /** A batch out for so long is asked after, and so is what was told and not answered. */
  readonly probe_batch_ms: number;
  readonly probe_worker_ms: number;
}

/** More questions than this are not open to one worker: the oldest count as lost. */
const QUESTIONS_MAX = 8;

export function asked(view: WorkerView, question: Question): void {
  view.questions = [...view.questions, question].slice(-QUESTIONS_MAX);
  view.askedUs = question.askedUs;
}

/** The question that was answered; those before it are lost, since answers come in order. */
export function answered(view: WorkerView, askedAt: number): Question | undefined {
  const question = view.questions.find((open) => open.askedAt === askedAt);
  if (question !== undefined) view.questions = view.questions.filter((open) => open.askedAt > askedAt);
  return question;
}

/** `outSinceUs`: when the batch that is out longest at the worker was sent, by version. */
export function shouldAsk(
  model: Pick<OwnedModel, 'phase'>,
  view: Pick<WorkerView, 'answered' | 'askedUs' | 'streams'>,
  outSinceUs: readonly (number | undefined)[],
  nowUs: number,
  times: ProbeTimes,
): boolean {
  const quietMs = (nowUs - view.askedUs) / 1000;
  if (!view.answered) return quietMs >= times.probe_batch_ms;
  // It holds nothing any more, and there is nothing to wait for.
  if (model.phase === 'failed' || model.phase === 'unloaded') return false;
  if (quietMs >= times.probe_worker_ms) return true;
  const isLate = (sentUs: number | undefined) => sentUs !== undefined && nowUs - sentUs >= times.probe_batch_ms * 1000;
  return quietMs >= times.probe_batch_ms && (view.streams || outSinceUs.some(isLate));
}

/**
 * What a worker holds of the model, by protocol's `heldKey`. A version of other files is not the model's, though its load
 * has the same number: a worker that outlived a Redis with all that was told there may have one.
 */
export function heldNow(
  model: Pick<OwnedModel, 'load' | 'hashes' | 'next'>,
  { versions }: Pick<DescribedMessage, 'versions'>,
): ReadonlyMap<string, VersionDescription> {
  const { next } = model;
  return new Map(
    versions.map((held) => {
      const load = held.load ?? 0;
      const of = load === model.load ? model : load === next?.load ? next : undefined;
      const isOther = of !== undefined && !isOf(held, of.hashes);
      return [heldKey(held.version, load), isOther ? ofOther(held) : held];
    }),
  );
}

/** A worker of a build that tells no hash is believed. */
function isOf({ state, contentHash }: VersionDescription, hashes: ReadonlySet<string>): boolean {
  return state !== 'READY' || contentHash === undefined || hashes.has(contentHash);
}

function ofOther(held: VersionDescription): VersionDescription {
  return { ...held, state: 'LOADING', instances: [], slots: [], ended: [] };
}

/** True where the worker, asked after it was told, answers as one that has not heard it. */
export function hasMissed(
  { told, toldLoads, kept }: Pick<WorkerView, 'told' | 'toldLoads' | 'kept'>,
  described: readonly VersionDescription[],
): boolean {
  const runs = ({ state }: VersionDescription) => state === 'READY' || state === 'LOADING';
  if (told === 'ask') return false;
  if (told === 'unload') return described.some(runs);
  const held = new Map(described.map((version) => [heldKey(version.version, version.load), version]));
  const loads = new Set([...toldLoads.map(({ load }) => load), ...kept]);
  if (described.some((version) => runs(version) && !loads.has(version.load ?? 0))) return true;
  return toldLoads.some(({ versions, load, hashes }) =>
    versions.some(({ version }) => {
      const found = held.get(heldKey(version, load));
      if (found === undefined || (found.state === 'UNAVAILABLE' && found.reason === UNLOADED)) return true;
      return found.reason === '' && !isOf(found, hashes);
    }),
  );
}
