/** Edits (insert, delete, replace) that turn `a` into `b`. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      const removed = (previous[column] ?? 0) + 1;
      const added = (current[column - 1] ?? 0) + 1;
      current.push(Math.min(replaced, removed, added));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}

/** Longer names are no typing error of anything; it also bounds the work. */
const NAME_LENGTH_MAX = 128;
const ABBREVIATION_LENGTH_MIN = 3;

/**
 * The candidate with the fewest edits from `name`, else one that begins with it (people abbreviate,
 * as Triton's getopt lets them); undefined where no edit count is within a third of its length.
 */
export function nearestName(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > NAME_LENGTH_MAX) return undefined;
  let beginning: string | undefined;
  let nearest: string | undefined;
  let fewest = Math.max(1, Math.floor(name.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(name, candidate);
    if (distance < fewest) {
      fewest = distance;
      nearest = candidate;
    }
    if (name.length >= ABBREVIATION_LENGTH_MIN && candidate.startsWith(name)) beginning ??= candidate;
  }
  return nearest ?? beginning;
}
