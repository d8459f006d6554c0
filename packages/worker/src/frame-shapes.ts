/**
 * How the frames between a worker and its instances write the shape of a joined tensor, in words of
 * 64-bit floats: rank and dimensions; where each request has a shape of its own
 * -1 - rank, the number of shapes and the dimensions of each.
 */
import type { JoinedTensor } from '@nereid/backends';
import { elementCount } from '@nereid/protocol';

type Shapes = readonly (readonly number[])[];
type ShapeOrShapes = { readonly shape: readonly number[]; readonly shapes?: Shapes | undefined };

/** Words that `writeShape` takes. */
export function shapeWords({ shape, shapes }: ShapeOrShapes): number {
  return shapes === undefined ? 1 + shape.length : 2 + shapes.length * rankOf(shapes);
}

/** Writes from the word `at` on; returns the word behind. */
export function writeShape(words: Float64Array, at: number, { shape, shapes }: ShapeOrShapes): number {
  let next = at;
  if (shapes === undefined) {
    words[next++] = shape.length;
    for (const dim of shape) words[next++] = dim;
    return next;
  }
  words[next++] = -1 - rankOf(shapes);
  words[next++] = shapes.length;
  for (const own of shapes) for (const dim of own) words[next++] = dim;
  return next;
}

/** Reads what `writeShape` wrote; `next` gives the words one by one. */
export function readShape(next: () => number): Pick<JoinedTensor, 'shape' | 'shapes'> {
  const rank = next();
  if (rank >= 0) return { shape: dimensions(rank, next) };
  const count = next();
  const shapes: number[][] = [];
  let elements = 0;
  for (let i = 0; i < count; i++) {
    const shape = dimensions(-1 - rank, next);
    elements += elementCount(shape) ?? 0;
    shapes.push(shape);
  }
  return { shape: [elements], shapes };
}

function dimensions(rank: number, next: () => number): number[] {
  const shape: number[] = [];
  for (let axis = 0; axis < rank; axis++) shape.push(next());
  return shape;
}

/** All shapes of one tensor have the same. */
function rankOf(shapes: Shapes): number {
  return shapes[0]?.length ?? 0;
}
