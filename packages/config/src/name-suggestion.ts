import { nearestName } from './flag-nearest.ts';

/** What to write in place of an unknown name. */
export function suggestion(name: string, known: readonly string[]): string {
  const nearest = nearestName(name, known);
  return nearest === undefined ? `known are ${known.join(', ')}` : `did you mean "${nearest}"?`;
}
