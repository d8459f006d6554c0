import type { ModelRecord } from '@nereid/config';
import {
  type CountedMessage,
  compareEpochs,
  type Epoch,
  type ErrorInfo,
  type ProcessId,
  STOPPING,
  type StaleMessage,
  type VersionStatistics,
} from '@nereid/protocol';
import { type Clock, createAtMost, type Timer } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import { type ModelLookups, versionRefusal } from './model-lookup.ts';
import type { Result } from './result.ts';

/** Callers at a time; one more is refused. */
const CALLS_MAX = 256;
/** Questions of one call that are open at a time. */
const OPEN_MAX = 64;
/** Versions that one question asks after, so that its answer has an end. */
const VERSIONS_MAX = 32;
/** A question is put again after this: it or its answer may be lost. */
const AGAIN_MS = 500;
/** The same where nobody owns the model now, or the one asked does not know yet. */
const OWNERLESS_AGAIN_MS = 100;

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

/** The same with what its gateway hands on to it. */
export interface StatisticsQuestions extends Statistics {
  counted(message: CountedMessage): void;
  /** Whether it answers one of these questions, no longer or not yet to be answered there. */
  stale(message: StaleMessage): boolean;
  /** Ends all that waits. */
  close(): void;
}

export interface StatisticsParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: Pick<ModelLookups, 'find'>;
  /** How long a caller waits, in all. */
  readonly wait_ms: number;
}

/** Versions of one model to be asked after. */
interface Wanted {
  readonly model: string;
  readonly versions: readonly string[];
}

type Choice = Result<readonly Wanted[]>;

/** Put to the model's owner, again and again until it is answered or its time is over. */
interface Question extends Wanted {
  readonly untilUs: number;
  /** Of all its copies to one owner. */
  id: string;
  /** Under which it was asked last. */
  epoch: Epoch | undefined;
  timer: Timer | undefined;
  /** Undefined: nobody told in time. */
  readonly resolve: (counted: readonly VersionStatistics[] | undefined) => void;
}

export function createStatistics(parts: StatisticsParts): StatisticsQuestions {
  const { clock, mailbox, directory, models, wait_ms } = parts;
  const questions = new Map<string, Question>();
  let calls = 0;
  let ids = 0;
  let closed = false;

  const nextId = () => `${parts.id}:c${++ids}`;

  const end = (question: Question, counted: readonly VersionStatistics[] | undefined) => {
    questions.delete(question.id);
    question.timer?.cancel();
    question.resolve(counted);
  };

  const put = (question: Question) => {
    const { model, versions, untilUs } = question;
    const nowUs = clock.nowUs();
    if (closed || nowUs >= untilUs) {
      end(question, undefined);
      return;
    }
    // Unloaded meanwhile.
    if (!models.find(model, '').ok) {
      end(question, []);
      return;
    }
    const epoch = directory.owner(model);
    if (epoch !== undefined) {
      address(question, epoch);
      mailbox.send(epoch.owner, { kind: 'count', model, epoch, id: question.id, versions });
    }
    putAgain(question, epoch === undefined ? OWNERLESS_AGAIN_MS : AGAIN_MS);
  };

  /** A new owner gets it under a new id: what the one before still answers is an older truth. */
  const address = (question: Question, epoch: Epoch) => {
    if (question.epoch !== undefined && compareEpochs(question.epoch, epoch) !== 0) {
      questions.delete(question.id);
      question.id = nextId();
      questions.set(question.id, question);
    }
    question.epoch = epoch;
  };

  const putAgain = (question: Question, afterMs: number) => {
    question.timer?.cancel();
    const atUs = Math.min(clock.nowUs() + afterMs * 1000, question.untilUs);
    question.timer = clock.at(atUs, () => put(question));
  };

  const ask = ({ model, versions }: Wanted, untilUs: number) =>
    new Promise<readonly VersionStatistics[] | undefined>((resolve) => {
      const question = { model, versions, untilUs, id: nextId(), epoch: undefined, timer: undefined, resolve };
      questions.set(question.id, question);
      put(question);
    });

  const readyVersions = (model: string): readonly string[] => {
    const found = models.find(model, '');
    return found.ok ? found.readyVersions : [];
  };

  const chosen = (model: string, version: string): Choice => {
    const wrong = versionRefusal(version);
    if (wrong !== undefined) return { ok: false, error: wrong };
    const ready = readyVersions(model);
    if (ready.length === 0) return { ok: false, error: modelNotAvailable(model) };
    if (version === '') return { ok: true, value: inParts(model, ready) };
    const found = models.find(model, version);
    if (found.ok) return { ok: true, value: inParts(model, [found.version]) };
    return { ok: false, error: versionNotAvailable(model) };
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
      if (closed) return { ok: false, error: STOPPING };
      if (calls >= CALLS_MAX) return { ok: false, error: BUSY };
      const wanted = name === '' ? all() : chosen(name, version);
      if (!wanted.ok) return wanted;
      calls++;
      try {
        const answer = await askAll(wanted.value);
        if (!answer.ok || name === '' || answer.value.length > 0) return answer;
        return { ok: false, error: version === '' ? modelNotAvailable(name) : versionNotAvailable(name) };
      } finally {
        calls--;
      }
    },
    counted({ id, versions }) {
      const question = questions.get(id);
      if (question !== undefined) end(question, versions);
    },
    stale({ id }) {
      const question = questions.get(id);
      if (question !== undefined) putAgain(question, OWNERLESS_AGAIN_MS);
      return question !== undefined;
    },
    close() {
      closed = true;
      for (const question of [...questions.values()]) end(question, undefined);
    },
  };
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
