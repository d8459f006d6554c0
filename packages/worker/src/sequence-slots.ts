/** What an instance's thread keeps of the sequences in its slots: their ids and their implicit states. */
import type { ModelSignature, SequenceSignature } from '@nereid/config';
import { NereidError, type Tensor } from '@nereid/protocol';
import { type HeldState, zeroData } from './initial-states.ts';
import type { RequestDetail } from './instance-messages.ts';
import { joinTensors, splitRows } from './join-split.ts';
import { type ControlledStep, correlationNumber } from './sequence-controls.ts';

/** A step that is to run, with the sequence that its slot keeps. */
export interface SlotStep extends ControlledStep {
  readonly slot: number;
  /** In the order of the signature. What the next step gets once `keep` has taken it. */
  readonly states: HeldState[];
}

export interface SequenceSlots {
  /**
   * The step of these details. A START begins anew, whatever the slot kept. Undefined where the slot does
   * not keep the sequence that the step goes on with.
   */
  enter(detail: RequestDetail): SlotStep | undefined;
  /** The step has run, with an END or without one. */
  leave(step: SlotStep): void;
}

/** `initial` are the states at a START, in the order of the signature. */
export function createSequenceSlots(sequence: SequenceSignature, initial: readonly HeldState[]): SequenceSlots {
  const slots = new Map<number, Omit<SlotStep, 'start' | 'end' | 'slot'>>();
  let generated = 0n;

  const begin = (slot: number, id: bigint | string) => {
    // Requests of an iterative model need no id; the model can tell its sequences apart all the same.
    const correlationId = sequence.iterative && isEmpty(id) ? ++generated : id;
    const begun = {
      correlationId,
      correlationNumber: correlationNumber(correlationId),
      states: initial.map(({ shape, data }) => ({ shape, data: new Uint8Array(data) })),
    };
    slots.set(slot, begun);
    return begun;
  };

  return {
    enter([, id, start, end, , , , , slot]) {
      const kept = start ? begin(slot, id) : slots.get(slot);
      if (kept === undefined) return undefined;
      if (kept.correlationId !== id && !(sequence.iterative && isEmpty(id))) return undefined;
      return { ...kept, start, end, slot };
    },
    leave({ end, slot }) {
      if (end) slots.delete(slot);
    },
  };
}

function isEmpty(id: bigint | string): boolean {
  return id === 0n || id === '';
}

/**
 * The states over all rows, by their input names, to be fed to one run; undefined is a row that belongs to no step.
 * All steps have states of the same shapes, and there is at least one.
 */
export function joinStates(
  { maxBatchSize, sequence }: ModelSignature,
  rows: readonly (SlotStep | undefined)[],
): Tensor[] {
  const first = rows.find((step) => step !== undefined);
  return (sequence?.states ?? []).flatMap(({ inputName: name, datatype }, index) => {
    const own = first?.states[index];
    if (own === undefined) return [];
    // What a slot keeps is only written to after the run.
    if (maxBatchSize === 0 || rows.length === 1) return [{ name, datatype, ...own }];
    const none = rows.includes(undefined) ? zeroData(datatype, own.shape) : own.data;
    const parts = rows.map((step) => ({ name, datatype, shape: own.shape, data: step?.states[index]?.data ?? none }));
    return [joinTensors(parts)];
  });
}

/** Copies of one step's states, by their input names, which a model may hold on to. */
export function copyStates({ sequence }: ModelSignature, step: SlotStep): Tensor[] {
  return (sequence?.states ?? []).flatMap(({ inputName: name, datatype }, index) => {
    const held = step.states[index];
    return held === undefined ? [] : [{ name, datatype, shape: held.shape, data: new Uint8Array(held.data) }];
  });
}

/** States for a row that belongs to no step, in the shapes of another one's. */
export function zeroStates({ sequence }: ModelSignature, step: SlotStep): Tensor[] {
  return (sequence?.states ?? []).flatMap(({ inputName: name, datatype }, index) => {
    const shape = step.states[index]?.shape;
    return shape === undefined ? [] : [{ name, datatype, shape, data: zeroData(datatype, shape) }];
  });
}

/**
 * Takes the states that a model gave over all rows for the next steps. Throws INTERNAL, having taken
 * none, where one of them is not what the configuration says.
 */
export function keepJoined(
  signature: ModelSignature,
  rows: readonly (SlotStep | undefined)[],
  given: readonly Tensor[],
): void {
  const counts = rows.map(() => 1);
  const split = given.map((state) => {
    checkState(signature, state, rows.length);
    return signature.maxBatchSize === 0 || rows.length === 1 ? [state] : splitRows(state, counts);
  });
  for (const [row, step] of rows.entries()) {
    if (step !== undefined)
      take(
        signature,
        step,
        split.flatMap((parts) => parts[row] ?? []),
      );
  }
}

/** The same for one step. */
export function keepStates(signature: ModelSignature, step: SlotStep, given: readonly Tensor[]): void {
  for (const state of given) checkState(signature, state, 1);
  take(signature, step, given);
}

function take({ sequence }: ModelSignature, step: SlotStep, given: readonly Tensor[]): void {
  for (const [index, { outputName }] of (sequence?.states ?? []).entries()) {
    const state = given.find(({ name }) => name === outputName);
    if (state === undefined) continue;
    // A copy: the buffer may go out as an output, and a part of it would keep the whole.
    const { data } = step.states[index] ?? {};
    if (data?.byteLength === state.data.byteLength) data.set(state.data);
    const own = data?.byteLength === state.data.byteLength ? data : new Uint8Array(state.data);
    step.states[index] = { shape: state.shape, data: own };
  }
}

function checkState({ name: model, maxBatchSize, sequence }: ModelSignature, { name, shape }: Tensor, rows: number) {
  const declared = sequence?.states.find(({ outputName }) => outputName === name);
  const dims = [...(maxBatchSize > 0 ? [rows] : []), ...(declared?.dims ?? [])];
  if (declared !== undefined && dims.length === shape.length) {
    if (dims.every((dim, axis) => dim === -1 || dim === shape[axis])) return;
  }
  const text = `state '${name}' of model '${model}' has shape [${shape.join(',')}], the model configuration says`;
  throw new NereidError('INTERNAL', `${text} [${dims.join(',')}]`);
}
