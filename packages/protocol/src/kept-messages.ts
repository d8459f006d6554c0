/** About tensors that stay in the memory of the worker that made them (docs/protocol.md R40). */
import { type BlobRef, type CarriedTensor, isBlobTensor } from './blob.ts';
import type { ProcessId } from './message.ts';

/**
 * What the caller who has the tensors' names asks: that they last on; that they go; that each is put down as a blob that
 * others can read, and a second time where every process looks, since somebody did not find the first one.
 */
export const KEPT_ACTIONS = ['renew', 'drop', 'put', 'rewrite'] as const;
export type KeptAction = (typeof KEPT_ACTIONS)[number];

/** caller → worker */
export interface KeptMessage {
  readonly kind: 'kept';
  /** The model of the request that needs them elsewhere; '' where they are of many. */
  readonly model: string;
  /** The question's, of all copies; '' where nothing is answered. */
  readonly id: string;
  readonly action: KeptAction;
  /** Of BlobRefs of place 'worker'. */
  readonly ids: readonly string[];
  readonly replyTo: ProcessId;
}

export interface PutTensor {
  readonly id: string;
  /** Null where it is gone, or there was no room. The asker renews and deletes it from now on. */
  readonly blob: BlobRef | null;
}

/** worker → caller: answers 'put' and 'rewrite'. */
export interface PutMessage {
  readonly kind: 'put';
  readonly model: string;
  readonly id: string;
  readonly tensors: readonly PutTensor[];
}

/** The worker that keeps a tensor of place 'worker', by the tensor's id `{worker}-{n}`. */
export function keeperOf(id: string): ProcessId {
  return id.slice(0, id.lastIndexOf('-'));
}

/** The worker that keeps the first of these tensors that any worker keeps; undefined where none does. */
export function firstKeeper(tensors: readonly CarriedTensor[]): ProcessId | undefined {
  for (const tensor of tensors) {
    if (isBlobTensor(tensor) && tensor.blob.place === 'worker') return keeperOf(tensor.blob.id);
  }
  return undefined;
}
