/** Which steps of a batch share a run of the model, and which row each of them gets. */
import type { JoinedTensor } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { joinTensors, splitTensor } from './join-split.ts';
import type { SlotStep } from './slot-states.ts';

/** In place of a position: a slot that has no step in the batch. */
export const NULL_ROW = -1;

/** The position in the batch of each row that the model gets; NULL_ROW for a slot that has no step in it. */
export function rowsOf(
  { name, maxBatchSize, sequence }: ModelSignature,
  steps: readonly (SlotStep | undefined)[],
  positions: readonly number[],
): readonly number[] {
  if (sequence?.strategy !== 'direct' || maxBatchSize === 0) return positions;
  const rows: number[] = [];
  for (const position of positions) {
    const slot = steps[position]?.slot ?? 0;
    if (slot < 0 || slot >= maxBatchSize || (rows[slot] ?? NULL_ROW) !== NULL_ROW) {
      throw new NereidError('INTERNAL', `a batch of model '${name}' has a step for slot ${slot}, which it cannot`);
    }
    while (rows.length < slot) rows.push(NULL_ROW);
    rows[slot] = position;
  }
  return rows;
}

/**
 * Positions whose states have the same shapes, or `all` in one group, in the order of their first; those without a
 * slot are in none.
 */
export function groupsOf(steps: readonly (SlotStep | undefined)[], all: boolean): readonly (readonly number[])[] {
  const groups: { readonly first: SlotStep; readonly positions: number[] }[] = [];
  for (const [position, step] of steps.entries()) {
    if (step === undefined) continue;
    const group = groups.find(({ first }) => all || haveSameShapes(first, step));
    if (group === undefined) groups.push({ first: step, positions: [position] });
    else group.positions.push(position);
  }
  return groups.map(({ positions }) => positions);
}

function haveSameShapes(a: SlotStep, b: SlotStep): boolean {
  return a.states.every(({ shape }, index) => {
    const other = b.states[index]?.shape;
    return other?.length === shape.length && shape.every((dim, axis) => dim === other[axis]);
  });
}

/** The parts of a tensor at these places, in their order; a place may stand twice. */
export function pickParts(tensor: JoinedTensor, counts: readonly number[], places: readonly number[]): JoinedTensor {
  const parts = splitTensor(tensor, counts);
  return joinTensors(
    places.flatMap((place) => parts[place] ?? []),
    tensor.shapes !== undefined,
  );
}
