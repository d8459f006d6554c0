/**
 * What an instance's thread or process keeps of the sequences in its slots: their ids and their implicit states. Which
 * sequence has which slot, and which step may run, is decided in the worker (session-slots.ts); nobody tells here of a
 * slot that is given back, whose state stays until the next START in it.
 */
import type { ModelSignature, SequenceSignature } from '@nereid/config';
import { NereidError, type Tensor } from '@nereid/protocol';
import { type HeldState, zeroData } from './initial-states.ts';
import type { RequestDetail } from './instance-messages.ts';
import { splitRows } from './join-split.ts';
import { type ControlledStep, correlationNumber as numberOf } from './sequence-controls.ts';

/** A step that is to run, with the sequence that its slot keeps. */
export interface SlotStep extends ControlledStep {
  readonly slot: number;
  /** In the order of the signature. What the next step gets once `keep` has taken it. */
  readonly states: HeldState[];
}

export interface SlotStates {
  /**
   * The step of these details. A START begins anew, whatever the slot kept. Undefined where the slot does
   * not keep the sequence that the step goes on with.
   */
  enter(detail: RequestDetail): SlotStep | undefined;
  /** The step has run, with an END or without one. */
  leave(step: SlotStep): void;
}

/** `initial` are the states at a START, in the order of the signature. */
export function createSlotStates(sequence: SequenceSignature, initial: readonly HeldState[]): SlotStates {
  const slots = new Map<number, Omit<SlotStep, 'start' | 'end' | 'slot'>>();
  let generated = 0n;

  const begin = (slot: number, id: bigint | string) => {
    // Requests of an iterative model need no id; the model can tell its sequences apart all the same.
    const correlationId = sequence.iterative && isEmpty(id) ? ++generated : id;
    const begun = {
      correlationId,
      correlationNumber: numberOf(correlationId),
      states: initial.map(({ shape, data }) => ({ shape, data: new Uint8Array(data) })),
    };
    slots.set(slot, begun);
    return begun;
  };

  return {
    enter(detail) {
      // By index: taking an array apart, or spreading an object, costs more than all else here.
      const id = detail[1];
      const start = detail[2];
      const end = detail[3];
      const slot = detail[8];
      const kept = start ? begin(slot, id) : slots.get(slot);
      if (kept === undefined) return undefined;
      const { correlationId, correlationNumber, states } = kept;
      if (correlationId !== id && !(sequence.iterative && isEmpty(id))) return undefined;
      return { correlationId, correlationNumber, states, start, end, slot };
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
    const none = zeroData(datatype, rows.includes(undefined) ? own.shape : [0]);
    let bytes = 0;
    for (const step of rows) bytes += (step?.states[index]?.data ?? none).byteLength;
    const data = new Uint8Array(bytes);
    let offset = 0;
    for (const step of rows) {
      const part = step?.states[index]?.data ?? none;
      data.set(part, offset);
      offset += part.byteLength;
    }
    return [{ name, datatype, shape: [rows.length, ...own.shape.slice(1)], data }];
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
  for (const state of given) checkState(signature, state, rows.length);
  for (const state of given) {
    const index = stateIndex(signature, state.name);
    const { datatype, shape, data } = state;
    if (datatype === 'BYTES' && rows.length > 1) {
      const parts = splitRows(
        state,
        rows.map(() => 1),
      );
      for (const [row, step] of rows.entries()) if (step !== undefined) take(step, index, parts[row] ?? state);
      continue;
    }
    const ownShape = signature.maxBatchSize === 0 ? shape : [1, ...shape.slice(1)];
    const bytes = data.byteLength / rows.length;
    for (let row = 0; row < rows.length; row++) {
      const step = rows[row];
      if (step === undefined) continue;
      take(step, index, { shape: ownShape, data: data.subarray(row * bytes, (row + 1) * bytes) });
    }
  }
}

/** The same for one step. */
export function keepStates(signature: ModelSignature, step: SlotStep, given: readonly Tensor[]): void {
  for (const state of given) checkState(signature, state, 1);
  for (const state of given) take(step, stateIndex(signature, state.name), state);
}

/** A copy: the buffer may go out as an output, and a part of it would keep the whole. */
function take({ states }: SlotStep, index: number, { shape, data }: Pick<Tensor, 'shape' | 'data'>): void {
  const before = states[index]?.data;
  if (before?.byteLength === data.byteLength) {
    before.set(data);
    states[index] = { shape, data: before };
  } else {
    states[index] = { shape, data: new Uint8Array(data) };
  }
}

function stateIndex({ sequence }: ModelSignature, name: string): number {
  return sequence?.states.findIndex(({ outputName }) => outputName === name) ?? -1;
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
