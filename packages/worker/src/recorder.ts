/**
 * What a worker records of what it runs (docs/replay.md). A batch's steps are handed to the journal once it is settled
 * and before anything of it is answered, so that a recording has each step whose answer has left.
 *
 * Whether a sequence is recorded is decided when its START is taken, and remembered until the sequence is over here.
 */
import { type JournalConfig, type JournalRule, journalRule } from '@nereid/config';
import {
  type BatchTiming,
  type ExecuteMessage,
  isWholeOutcome,
  type Outcome,
  type ProcessId,
  type RecordedAnswer,
  type RecordingState,
  type ResponseMessage,
  type StepEffect,
  sha256,
} from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import { type JournalWriter, type NewEnd, type NewStep, recordingId } from '@nereid/transport';
import type { WholeEntry } from './batch-answers.ts';
import type { VersionSource } from './hosted-version.ts';
import { createRecordedTensors, keptAnswer } from './recorded-tensors.ts';
import type { SessionFate } from './session-slots.ts';
import { sharedNowNs } from './shared-now.ts';

export interface RecorderOptions {
  readonly journal: Pick<JournalWriter, 'send' | 'end' | 'isOver'>;
  readonly config: Pick<JournalConfig, 'share' | 'output_bytes'>;
  readonly clock: Clock;
}

/** A batch of which something may be recorded, before it runs. */
export interface RecordedBatch {
  readonly message: Pick<ExecuteMessage, 'model' | 'instance'>;
  readonly worker: ProcessId;
  readonly source: VersionSource;
  /** `sharedNowNs` when the worker got it. */
  readonly receivedNs: number;
  /** Those that run. */
  readonly entries: readonly WholeEntry[];
  /** The model keeps sequences. */
  readonly sequences: boolean;
}

/** How a request of a batch ended. */
export interface EntryEnd {
  readonly effect: StepEffect;
  /** Its last answer; undefined where that was sent before, or there is none. */
  readonly outcome: Outcome | undefined;
  /** Its sequence is over with it. */
  readonly ends: boolean;
}

/** The part of a batch that is recorded. */
export interface BatchRecord {
  /** A part of an answer has been sent. */
  sent(position: number, response: ResponseMessage): void;
  /**
   * Resolves once the journal has what ended, or has it on its way; undefined where that is so now, or nothing is to be
   * written. `end` tells how each did:
   * 'again' where it is to run once more, undefined where it never ran.
   */
  write(timing: BatchTiming, end: (position: number) => EntryEnd | 'again' | undefined): Promise<void> | undefined;
}

export interface Recorder {
  /** False where nothing of such a batch is recorded, told in no time. */
  mayRecord(source: VersionSource, entries: readonly WholeEntry[]): boolean;
  /** Undefined where nothing of the batch is recorded. */
  begin(batch: RecordedBatch): BatchRecord | undefined;
  /** Something may have ended: marks the recordings of the model's sequences that are over without a last step. */
  review(model: string, fate: (session: string) => SessionFate): void;
  /** Resolves once the marks are written, or will not be. */
  marked(): Promise<void>;
}

/** A sequence that is recorded. */
interface RecordedSession {
  readonly id: string;
  readonly model: string;
  readonly worker: ProcessId;
  /** Of its next step. */
  step: number;
  /** Its step is to run once more (iterative sequences); answers of the runs before. */
  again: boolean;
  answers: RecordedAnswer[];
}

/** Of a model version. */
interface VersionFacts {
  readonly rule: JournalRule;
  readonly configSha256: string;
}

export function createRecorder({ journal, config, clock }: RecorderOptions): Recorder {
  /** By the name of the session. */
  const sessions = new Map<string, RecordedSession>();
  const marks = new Set<Promise<void>>();
  const known = new WeakMap<VersionSource, VersionFacts>();

  const factsOf = (source: VersionSource): VersionFacts => {
    const found = known.get(source);
    if (found !== undefined) return found;
    const facts = { rule: journalRule(source.config), configSha256: sha256(Buffer.from(source.configText)) };
    known.set(source, facts);
    return facts;
  };

  /** Of a recording that takes no more steps none is made. */
  const isKept = (name: string): boolean => {
    const session = sessions.get(name);
    if (session === undefined) return false;
    if (!journal.isOver(session.id)) return true;
    sessions.delete(name);
    return false;
  };

  /** The name that a request is recorded by: of its session, or its own; undefined where it is not. */
  const nameOf = (entry: WholeEntry, rule: JournalRule, { message, worker, sequences: keeps }: RecordedBatch) => {
    const { model } = message;
    const name = keeps ? entry.session : entry.id;
    if (name === null) return undefined;
    // An iterative sequence is one request.
    const begins = !keeps || entry.request.sequenceStart || entry.id === name;
    if (!begins) return isKept(name) ? name : undefined;
    if (sessions.get(name)?.again === true) return name;
    const { journal: wish } = entry.request;
    const share = wish === undefined ? (rule.share ?? config.share) : Number(wish);
    const isRecorded = share >= 1 || (share > 0 && fractionOf(name) < share);
    if (isRecorded && keeps) {
      sessions.set(name, { id: recordingId(model, name), model, worker, step: 0, again: false, answers: [] });
    }
    return isRecorded ? name : undefined;
  };

  const mark = (end: NewEnd) => {
    const written = journal.end([end]).then(() => void marks.delete(written));
    marks.add(written);
  };

  return {
    mayRecord(source, entries) {
      if ((factsOf(source).rule.share ?? config.share) > 0 || sessions.size > 0) return true;
      for (const { request } of entries) if (request.journal === true) return true;
      return false;
    },
    begin(given) {
      const { message, source, entries } = given;
      const { model } = message;
      const { rule, configSha256 } = factsOf(source);
      let names: Map<number, string> | undefined;
      for (const [position, entry] of entries.entries()) {
        const name = nameOf(entry, rule, given);
        if (name === undefined) continue;
        names ??= new Map();
        names.set(position, name);
      }
      if (names === undefined) return undefined;
      const recorded = names;
      const chunks = new Map<number, RecordedAnswer[]>();
      const tensors = createRecordedTensors(rule.redact, config.output_bytes);
      const receivedMs = clock.wallMs() - (sharedNowNs() - given.receivedNs) / NS_IN_MS;

      const stepOf = (position: number, name: string, timing: BatchTiming, end: EntryEnd): NewStep | undefined => {
        const entry = entries[position];
        const session = sessions.get(name);
        if (entry === undefined || (given.sequences && session === undefined)) return undefined;
        const answers = [...(session?.answers ?? []), ...(chunks.get(position) ?? [])];
        if (end.outcome !== undefined) answers.push(tensors.answer(end.outcome));
        const state = stateAfter(end, given.sequences);
        const number = session?.step ?? 0;
        if (session !== undefined) {
          session.step++;
          session.again = false;
          session.answers = [];
          if (state !== 'open') sessions.delete(name);
        }
        return {
          id: session?.id ?? recordingId(model, name),
          model,
          kind: given.sequences ? 'sequence' : 'request',
          state,
          step: {
            step: number,
            token: entry.id,
            request: tensors.request(entry),
            modelVersion: source.version,
            configSha256,
            contentHash: source.contentHash,
            worker: given.worker,
            instance: message.instance,
            slot: given.sequences ? entry.slot : -1,
            batchSize: entries.length,
            receivedMs,
            timing,
            effect: end.effect,
            answers,
          },
        };
      };

      const goOn = (name: string, answers: readonly RecordedAnswer[] = []) => {
        const session = sessions.get(name);
        if (session === undefined) return;
        session.again = true;
        session.answers.push(...answers);
      };

      return {
        sent(position, { outcome, last }) {
          if (!recorded.has(position) || !isWholeOutcome(outcome) || (last && isOnlyEnd(outcome))) return;
          const answers = chunks.get(position) ?? [];
          chunks.set(position, answers);
          answers.push(keptAnswer(tensors.answer(outcome)));
        },
        write(timing, endOf) {
          const steps: NewStep[] = [];
          for (const [position, name] of recorded) {
            const end = endOf(position);
            if (end === 'again') goOn(name, chunks.get(position));
            const step = end === 'again' || end === undefined ? undefined : stepOf(position, name, timing, end);
            if (step !== undefined) steps.push(step);
          }
          return steps.length === 0 ? undefined : journal.send(steps);
        },
      };
    },
    review(model, fate) {
      for (const [name, session] of sessions) {
        if (session.model !== model) continue;
        const now = fate(name);
        if (now === 'live') continue;
        sessions.delete(name);
        // Without a step that took effect nothing was recorded.
        if (session.step === 0) continue;
        const state = now === 'ended' ? 'freed' : 'lost';
        mark({ id: session.id, model, kind: 'sequence', state, worker: session.worker });
      }
    },
    async marked() {
      await Promise.all(marks);
    },
  };
}

const NS_IN_MS = 1e6;

function stateAfter({ effect, ends }: EntryEnd, sequences: boolean): RecordingState {
  if (effect === 'applied') return ends || !sequences ? 'ended' : 'open';
  return effect;
}

/** A last answer that only says that there are no more, or that nobody waits for them. */
function isOnlyEnd(outcome: Outcome): boolean {
  return outcome.ok ? outcome.response.outputs.length === 0 : outcome.error.code === 'CANCELLED';
}

const UINT32_RANGE = 2 ** 32;

/** A number from 0 to 1 that is the same for a name wherever it is asked for (FNV-1a, then mixed). */
export function fractionOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index++) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / UINT32_RANGE;
}
