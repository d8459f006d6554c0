/**
 * Statistics as they are kept for whoever takes a model over: JSON by names, sums of batches and answers by position, so
 * that another build reads what it knows of it and takes the rest for 0. Nothing in it is believed but whole numbers.
 */
import { RESPONSES_COUNTED_MAX } from '@nereid/protocol';
import { CLOSE_REASONS, countClose } from './close-counts.ts';
import { batchCounts, FAILURE_REASONS, type ModelStatistics } from './model-statistics.ts';
import type { OwnedModel } from './owned-model.ts';
import { noResponses, type ResponseCounts } from './response-counts.ts';

/** Sums, by the names that they have in ModelStatistics too. */
const SUMS = [
  'success',
  'failNs',
  'inferences',
  'executions',
  'requestNs',
  'queueNs',
  'inputNs',
  'inferNs',
  'outputNs',
  'requestUs',
  'queueUs',
  'inputUs',
  'inferUs',
  'outputUs',
  'cacheHits',
  'hitNs',
  'hitUs',
  'cacheMisses',
  'missNs',
  'missUs',
] as const satisfies readonly (keyof ModelStatistics)[];

/** These and the next are kept by their position: a new one goes to the end. */
const BATCH_SUMS = ['executions', 'inputNs', 'inferNs', 'outputNs'] as const;

const RESPONSE_SUMS = [
  'infer',
  'inferNs',
  'success',
  'outputNs',
  'successNs',
  'fail',
  'failNs',
  'empty',
  'emptyNs',
  'cancel',
  'cancelNs',
] as const satisfies readonly (keyof ResponseCounts)[];

interface KeptVersion extends Partial<Record<(typeof SUMS)[number], unknown>> {
  readonly lastInferenceMs?: unknown;
  readonly failure?: Readonly<Record<string, unknown>>;
  /** Rows and then BATCH_SUMS, of each size. */
  readonly batches?: readonly (readonly unknown[])[];
  /** Rows and then batches, of each size, by why they were closed. */
  readonly closes?: Readonly<Record<string, unknown>>;
  /** RESPONSE_SUMS, by position. */
  readonly responses?: readonly (readonly unknown[])[];
}

interface Kept {
  /** Of the files that were served: what was counted of others is not of this model. */
  readonly contentHash?: unknown;
  readonly versions?: Readonly<Record<string, KeptVersion>>;
}

/** What has been counted of the model since its load. */
export function keptText({ source, versions }: OwnedModel): string {
  const counted = versions.flatMap(({ version, statistics }) =>
    statistics === undefined ? [] : [[version, keptVersion(statistics)] as const],
  );
  return JSON.stringify({ contentHash: source.contentHash, versions: Object.fromEntries(counted) } satisfies Kept);
}

function keptVersion(statistics: ModelStatistics): KeptVersion {
  const { lastInferenceMs, failure, batches, closes, responses } = statistics;
  return {
    ...Object.fromEntries(SUMS.map((name) => [name, statistics[name]])),
    lastInferenceMs,
    failure,
    batches: [...batches].map(([rows, counts]) => [rows, ...BATCH_SUMS.map((name) => counts[name])]),
    closes: Object.fromEntries([...closes].map(([reason, sizes]) => [reason, [...sizes]])),
    responses: responses.map((counts) => RESPONSE_SUMS.map((name) => counts[name])),
  };
}

/**
 * Adds what an earlier owner kept to what has been counted here. False where that is of other files,
 * or cannot be read: then all is counted from 0.
 */
export function addKept({ source, versions }: OwnedModel, text: string): boolean {
  const kept = parsed(text);
  if (kept === undefined || kept.contentHash !== source.contentHash) return false;
  for (const { version, statistics } of versions) {
    const held = kept.versions?.[version];
    if (statistics !== undefined && typeof held === 'object' && held !== null) addVersion(statistics, held);
  }
  return true;
}

function parsed(text: string): Kept | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function addVersion(into: ModelStatistics, held: KeptVersion): void {
  for (const name of SUMS) into[name] += whole(held[name]);
  for (const reason of FAILURE_REASONS) into.failure[reason] += whole(held.failure?.[reason]);
  into.lastInferenceMs = Math.max(into.lastInferenceMs, whole(held.lastInferenceMs));
  for (const [rows, ...sums] of listOf(held.batches)) {
    const counts = batchCounts(into, whole(rows));
    for (const [at, name] of BATCH_SUMS.entries()) counts[name] += whole(sums[at]);
  }
  for (const reason of CLOSE_REASONS) {
    for (const [rows, batches] of listOf(held.closes?.[reason])) {
      countClose(into.closes, reason, whole(rows), whole(batches));
    }
  }
  for (const [index, sums] of listOf(held.responses).slice(0, RESPONSES_COUNTED_MAX).entries()) {
    const counts = into.responses[index] ?? noResponses();
    for (const [at, name] of RESPONSE_SUMS.entries()) counts[name] += whole(sums[at]);
    into.responses[index] = counts;
  }
}

function listOf(value: unknown): readonly (readonly unknown[])[] {
  return Array.isArray(value) ? value.filter((item) => Array.isArray(item)) : [];
}

function whole(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? Math.trunc(value) : 0;
}
