/** What a config asks of a model's sequences, read once more for the checks (scheduling facts of sequence_batch_scheduler.cc). */
import type { ModelConfig } from '@nereid/config';

export interface SequenceRules {
  readonly strategy: 'direct' | 'oldest';
  /** Of an instance. */
  readonly slots: number;
  readonly rows_max: number;
  readonly idleUs: number;
  /** How long a step that may go waits for others at a free instance. */
  readonly delayUs: number;
  /** Direct: the share of slots with which a batch goes before that. */
  readonly utilizationMin: number;
  /** Oldest without a delay: so long a batch may wait for clients that were just answered. */
  readonly holdUs: number;
}

/** `holdUs`: what it may be at most. */
export function sequenceRules({ maxBatchSize, schedulingChoice: choice }: ModelConfig, holdUs: number): SequenceRules {
  if (choice.case !== 'sequenceBatching') throw new Error('the model keeps no sequences');
  const { maxSequenceIdleMicroseconds: idleUs, strategyChoice: strategy } = choice.value;
  const rows_max = Math.max(1, maxBatchSize);
  const common = { rows_max, idleUs: Number(idleUs) };
  if (strategy.case === 'oldest') {
    const delayUs = Number(strategy.value.maxQueueDelayMicroseconds);
    const slots = strategy.value.maxCandidateSequences || rows_max;
    return { ...common, strategy: 'oldest', slots, delayUs, utilizationMin: 0, holdUs: delayUs === 0 ? holdUs : 0 };
  }
  const utilizationMin = strategy.value?.minimumSlotUtilization ?? 0;
  const delayUs = utilizationMin > 0 ? Number(strategy.value?.maxQueueDelayMicroseconds ?? 0) : 0;
  return { ...common, strategy: 'direct', slots: rows_max, delayUs, utilizationMin, holdUs: 0 };
}
