import { createHash } from 'node:crypto';
import type { ProcessId } from '@nereid/protocol';

/**
 * The coordinator that a model falls to first, of those that live: each draws a number for the model
 * and the highest wins (rendezvous hashing). So all agree without asking, and when one goes only its
 * own models fall to others, spread over all of them. Undefined where there is none.
 */
export function firstRanked(model: string, coordinators: Iterable<ProcessId>): ProcessId | undefined {
  let first: ProcessId | undefined;
  let highest = '';
  for (const id of coordinators) {
    const drawn = createHash('sha1').update(`${model}\0${id}`).digest('hex');
    if (first === undefined || drawn > highest || (drawn === highest && id < first)) {
      first = id;
      highest = drawn;
    }
  }
  return first;
}
