import { type ModelLookups, versionRefusal } from '@nereid/caller';
import type { ModelRecord } from '@nereid/config';
import { type ErrorInfo, STOPPING, type VersionStatistics } from '@nereid/protocol';
import { type Clock, createAtMost } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';
import type { OwnerQuestions } from './owner-questions.ts';
import type { Result } from './result.ts';

/** Callers at a time; one more is refused. */
const CALLS_MAX = 256;
/** Questions of one call that are open at a time. */
const OPEN_MAX = 64;
/** Versions that one question asks after, so that its answer has an end. */
const VERSIONS_MAX = 32;

const BUSY: ErrorInfo = { code: 'UNAVAILABLE', message: 'too many requests for statistics at a time; try again' };

export type StatisticsAnswer = Result<readonly VersionStatistics[]>;

/** What the owners of models have counted. */
export interface Statistics {
  /**
   * The statistics of a model's READY versions, or of the one asked for; of all models where `name` is ''.
   * Models by name, versions ascending. Never rejects: INVALID_ARG with Triton's texts for what is not
   * available (tritonserver.cc, ModelStatistics), UNAVAILABLE where an owner does not answer in time.
   */
  of(name: string, version: string): Promise<StatisticsAnswer>;
}

export interface StatisticsParts {
  readonly clock: Clock;
  readonly directory: Directory<ModelRecord>;
  readonly models: Pick<ModelLookups, 'find'>;
  readonly questions: OwnerQuestions;
  /** Tells owners first what this gateway has for them to count. */
  readonly tell: () => void;
  /** How long a caller waits, in all. */
  readonly wait_ms: number;
}

/** Versions of one model to be asked after. */
interface Wanted {
  readonly model: string;
  readonly versions: readonly string[];
}

type Choice = Result<readonly Wanted[]>;

export function createStatistics(parts: StatisticsParts): Statistics {
  const { clock, directory, models, questions, wait_ms } = parts;
  let calls = 0;

  /** Undefined: nobody told in time. */
  const ask = async ({ model, versions }: Wanted, untilUs: number) => {
    const answer = await questions.ask(model, untilUs, (epoch, id) => ({ kind: 'count', model, epoch, id, versions }));
    if (answer === 'gone') return [];
    return answer !== 'silent' && answer.kind === 'counted' ? answer.versions : undefined;
  };

  const readyVersions = (model: string): readonly string[] => {
    const found = models.find(model, '');
    return found.ok ? found.readyVersions : [];
  };

  const chosen = (name: string, version: string): Choice => {
    const wrong = versionRefusal(version);
    if (wrong !== undefined) return { ok: false, error: wrong };
    const any = models.find(name, '');
    if (!any.ok || any.readyVersions.length === 0) return { ok: false, error: modelNotAvailable(name) };
    const model = any.record.name;
    if (version === '') return { ok: true, value: inParts(model, any.readyVersions) };
    const found = models.find(name, version);
    if (found.ok) return { ok: true, value: inParts(model, [found.version]) };
    return { ok: false, error: versionNotAvailable(name) };
  };

  const all = (): Choice => {
    const names = directory.records().map(({ name }) => name);
    return { ok: true, value: names.sort().flatMap((name) => inParts(name, readyVersions(name))) };
  };

  const askAll = async (wanted: readonly Wanted[]): Promise<StatisticsAnswer> => {
    const untilUs = clock.nowUs() + wait_ms * 1000;
    const atMost = createAtMost(OPEN_MAX);
    const answers = await Promise.all(wanted.map((one) => atMost(() => ask(one, untilUs))));
    const silent = wanted[answers.indexOf(undefined)];
    if (silent !== undefined) return { ok: false, error: notTold(silent.model) };
    return { ok: true, value: answers.flatMap((answer) => answer ?? []) };
  };

  return {
    async of(name, version) {
      if (questions.closed) return { ok: false, error: STOPPING };
      if (calls >= CALLS_MAX) return { ok: false, error: BUSY };
      const wanted = name === '' ? all() : chosen(name, version);
      if (!wanted.ok) return wanted;
      calls++;
      parts.tell();
      try {
        const answer = await askAll(wanted.value);
        if (!answer.ok || name === '') return answer;
        if (answer.value.length > 0) return { ok: true, value: answer.value.map((each) => named(each, name)) };
        return { ok: false, error: version === '' ? modelNotAvailable(name) : versionNotAvailable(name) };
      } finally {
        calls--;
      }
    },
  };
}

/** What is counted is the model's; who asks by an alias looks for its name. */
function named(statistics: VersionStatistics, name: string): VersionStatistics {
  return statistics.name === name ? statistics : { ...statistics, name };
}

function inParts(model: string, versions: readonly string[]): Wanted[] {
  const wanted: Wanted[] = [];
  for (let from = 0; from < versions.length; from += VERSIONS_MAX) {
    wanted.push({ model, versions: versions.slice(from, from + VERSIONS_MAX) });
  }
  return wanted;
}

function modelNotAvailable(model: string): ErrorInfo {
  return { code: 'INVALID_ARG', message: `requested model '${model}' is not available` };
}

function versionNotAvailable(model: string): ErrorInfo {
  return { code: 'INVALID_ARG', message: `requested model version is not available for model '${model}'` };
}

function notTold(model: string): ErrorInfo {
  const message = `the coordinator that owns model '${model}' did not tell its statistics in time; try again`;
  return { code: 'UNAVAILABLE', message };
}
