/** The sequences of a model on this worker, by version and load (protocol's `heldKey`). */
import type { ModelSignature } from '@nereid/config';
import type { ProcessId, RunningStream, VersionDescription } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { KeptAnswersLimits } from './kept-answers.ts';
import { createSessionSlots, type SessionFate } from './session-slots.ts';
import { iterativeExecution, type StepSlots } from './step-batch.ts';

export interface ModelSequences {
  /** Undefined for a version that keeps no sequences. */
  of(key: string): StepSlots | undefined;
  /** This version is held with that signature. What it remembers of sequences outlives its instances. */
  hold(key: string, signature: ModelSignature): void;
  /** The state of that instance's sequences is gone; of all instances without one. */
  lost(key: string, instance?: number): void;
  /** The load is over: nobody asks after its sequences any more. */
  forget(key: string): void;
  free(session: string): void;
  /** The worker goes on under another id, as one that has no sequences (docs/protocol.md R10). */
  drop(): void;
  readonly anyLive: boolean;
  /** Resolves once no sequence lives, or `giveUp` was called. */
  over(): Promise<void>;
  giveUp(): void;
  /** Resolves once no sequence lives on that instance. */
  overOn(key: string, instance: number): Promise<void>;
  /** Something may have ended. */
  review(): void;
  describe(key: string): Pick<VersionDescription, 'slots' | 'ended'>;
  /** The requests of iterative sequences that may get several answers: they go on between their runs. */
  streams(worker: ProcessId): readonly RunningStream[];
}

interface Held extends StepSlots {
  readonly decoupled: boolean;
}

const NOTHING = {};

/** `reviewed`: told when sessions have ended. */
export function createModelSequences(
  model: string,
  clock: Clock,
  limits: KeptAnswersLimits,
  reviewed?: (fate: (session: string) => SessionFate) => void,
): ModelSequences {
  const versions = new Map<string, Held>();
  const waiting: (() => void)[] = [];
  const leaving = new Set<{ readonly isOver: () => boolean; readonly resolve: () => void }>();
  /** `overCount` of all versions at the last review; -1 where a version is gone with its sessions. */
  let seenOver = 0;

  const anyLive = () => [...versions.values()].some(({ slots }) => slots.size > 0);

  const wake = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };

  const fate = (session: string): SessionFate => {
    for (const { slots } of versions.values()) {
      const found = slots.fate(session);
      if (found !== undefined) return found;
    }
    return undefined;
  };

  /** Comes after each batch: whoever looks through thousands of sessions is told only where one is over. */
  const review = () => {
    let over = 0;
    for (const { slots } of versions.values()) over += slots.overCount;
    if (over !== seenOver) reviewed?.(fate);
    seenOver = over;
    for (const wait of leaving) {
      if (!wait.isOver()) continue;
      leaving.delete(wait);
      wait.resolve();
    }
    if (waiting.length > 0 && !anyLive()) wake();
  };

  return {
    get anyLive() {
      return anyLive();
    },
    of: (key) => versions.get(key),
    hold(key, { sequence, decoupled }) {
      if (sequence === undefined) {
        if (versions.delete(key)) seenOver = -1;
        return;
      }
      const slots = versions.get(key)?.slots ?? createSessionSlots(model, limits);
      versions.set(key, {
        slots,
        iterative: sequence.iterative,
        decoupled,
        answerBytesMax: limits.sequence_answer_bytes_max,
      });
    },
    lost(key, instance) {
      versions.get(key)?.slots.lost(instance, clock.nowUs());
      review();
    },
    forget(key) {
      if (versions.delete(key)) seenOver = -1;
      review();
    },
    free(session) {
      for (const { slots } of versions.values()) slots.free(session, clock.nowUs());
      review();
    },
    drop() {
      for (const { slots } of versions.values()) slots.drop();
      review();
    },
    async over() {
      if (anyLive()) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    overOn(key, instance) {
      const isOver = () => versions.get(key)?.slots.livesOn(instance) !== true;
      return isOver() ? Promise.resolve() : new Promise((resolve) => leaving.add({ isOver, resolve }));
    },
    giveUp: wake,
    review,
    describe: (key) => versions.get(key)?.slots.describe(clock.nowUs()) ?? NOTHING,
    streams(worker) {
      const streams: RunningStream[] = [];
      for (const { slots, iterative, decoupled } of versions.values()) {
        if (!iterative || !decoupled) continue;
        for (const id of slots.live) streams.push({ id, execution: iterativeExecution(worker, id) });
      }
      return streams;
    },
  };
}
