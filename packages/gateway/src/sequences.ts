import type { ModelLookups } from '@nereid/caller';
import type { ModelRecord } from '@nereid/config';
import { type ErrorInfo, type ListedSequence, STOPPING } from '@nereid/protocol';
import { type Clock, createAtMost } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { OwnerQuestions } from './owner-questions.ts';
import type { Result } from './result.ts';

/** Callers at a time; one more is refused. */
const CALLS_MAX = 64;
/** Owners that one call asks at a time. */
const OPEN_MAX = 64;
/** Sequences that one call tells at most; also what an owner is asked for at a time. */
export const SEQUENCES_LISTED_MAX = 1_000;

const BUSY: ErrorInfo = { code: 'UNAVAILABLE', message: 'too many requests for sequences at a time; try again' };

export interface ModelSequence extends ListedSequence {
  readonly model: string;
}

/** A sequence's place in the list. */
export interface SequencePosition {
  readonly model: string;
  readonly session: string;
}

export interface SequencePage {
  /** By model, then by session, as texts. */
  readonly sequences: readonly ModelSequence[];
  /** There may be more behind this one. */
  readonly next: SequencePosition | undefined;
}

export interface SequenceQuery {
  /** '' for all models. */
  readonly model: string;
  /** From 1 to SEQUENCES_LISTED_MAX. */
  readonly limit: number;
  /** Undefined for the first. */
  readonly after: SequencePosition | undefined;
}

/** The sequences that owners of models keep, in the whole cluster. */
export interface Sequences {
  /** Never rejects: NOT_FOUND for a model that keeps none, UNAVAILABLE where an owner does not answer in time. */
  list(query: SequenceQuery): Promise<Result<SequencePage>>;
  /**
   * Ends the sequence; what it was. `model` '' where that is not known. Never rejects: NOT_FOUND where there is none,
   * UNAVAILABLE where an owner that may keep it does not answer in time.
   */
  evict(session: string, model: string): Promise<Result<ModelSequence>>;
}

export interface SequencesParts {
  readonly clock: Clock;
  readonly directory: Directory<ModelRecord>;
  readonly models: Pick<ModelLookups, 'find'>;
  readonly questions: OwnerQuestions;
  /** How long a caller waits, in all. */
  readonly wait_ms: number;
}

export function createSequences(parts: SequencesParts): Sequences {
  const { clock, directory, models, questions } = parts;
  let calls = 0;

  const keepsSequences = (model: string) => {
    const found = models.find(model, '');
    return found.ok && found.signature.sequence !== undefined;
  };

  /** The models that may keep what is asked for, by name. */
  const chosen = (model: string): Result<readonly string[]> => {
    if (model !== '') {
      const found = models.find(model, '');
      return found.ok && found.signature.sequence !== undefined
        ? { ok: true, value: [found.record.name] }
        : failed(keepsNone(model));
    }
    const names = directory.records().map(({ name }) => name);
    return { ok: true, value: names.filter(keepsSequences).sort() };
  };

  const untilUs = () => clock.nowUs() + parts.wait_ms * 1000;

  const listAll = async (names: readonly string[], { limit, after }: SequenceQuery): Promise<Result<SequencePage>> => {
    const endUs = untilUs();
    const sequences: ModelSequence[] = [];
    for (const [index, model] of names.entries()) {
      if (after !== undefined && model < after.model) continue;
      const behind = after?.model === model ? after.session : '';
      const left = limit - sequences.length;
      // One by one: most are not asked where the first ones fill the page.
      const answer = await questions.ask(model, endUs, (epoch, id) => {
        return { kind: 'list', model, epoch, id, after: behind, limit: left };
      });
      if (answer === 'gone') continue;
      if (answer === 'silent' || answer.kind !== 'listed') return failed(notTold(model));
      for (const sequence of answer.sequences) sequences.push({ model, ...sequence });
      const isFull = sequences.length >= limit && index < names.length - 1;
      if (answer.more || isFull) return { ok: true, value: { sequences, next: positionOf(sequences) } };
    }
    return { ok: true, value: { sequences, next: undefined } };
  };

  const evictOne = async (names: readonly string[], session: string): Promise<Result<ModelSequence>> => {
    const endUs = untilUs();
    const atMost = createAtMost(OPEN_MAX);
    const ask = async (model: string) => {
      const answer = await questions.ask(model, endUs, (epoch, id) => ({ kind: 'evict', model, epoch, id, session }));
      return { model, answer };
    };
    const answers = await Promise.all(names.map((model) => atMost(() => ask(model))));
    for (const { model, answer } of answers) {
      const [ended] = typeof answer === 'object' && answer.kind === 'listed' ? answer.sequences : [];
      if (ended !== undefined) return { ok: true, value: { model, ...ended } };
    }
    const silent = answers.find(({ answer }) => answer === 'silent');
    return failed(silent === undefined ? noSession(session) : notTold(silent.model));
  };

  const call = async <T>(model: string, ask: (names: readonly string[]) => Promise<Result<T>>): Promise<Result<T>> => {
    if (questions.closed) return failed(STOPPING);
    if (calls >= CALLS_MAX) return failed(BUSY);
    const names = chosen(model);
    if (!names.ok) return names;
    calls++;
    try {
      return await ask(names.value);
    } finally {
      calls--;
    }
  };

  return {
    list: (query) => call(query.model, (names) => listAll(names, query)),
    evict: (session, model) => call(model, (names) => evictOne(names, session)),
  };
}

function positionOf(sequences: readonly ModelSequence[]): SequencePosition | undefined {
  const last = sequences.at(-1);
  return last && { model: last.model, session: last.session };
}

function failed(error: ErrorInfo): { readonly ok: false; readonly error: ErrorInfo } {
  return { ok: false, error };
}

function keepsNone(model: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `no ready model '${model}' keeps sequences`, field: 'model' };
}

function noSession(session: string): ErrorInfo {
  const message = `no sequence has the session '${session}' now; GET /nereid/v1/sequences lists those there are`;
  return { code: 'NOT_FOUND', message, field: 'session' };
}

function notTold(model: string): ErrorInfo {
  const message = `the coordinator that owns model '${model}' did not tell its sequences in time; try again`;
  return { code: 'UNAVAILABLE', message };
}
