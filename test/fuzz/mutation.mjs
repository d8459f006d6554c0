/**
 * What is expected of a request: `valid`, its right values; `refused`, an error that is the client's; `any` answer that
 * is in order. Mutations take certainty away; of two, the second may undo the first.
 */

/** Notes that a request is no longer what it was. `how`: `refused` where that is sure. */
export function hurt(request, how = 'any') {
  request.expect = request.expect === 'valid' ? how : 'any';
}

/** How many mutations a request is to have that may make it wrong, and that leave it as it is. */
export function mutationCounts(dice) {
  const breaking = dice.weighted([
    [9, 0],
    [7, 1],
    [3, 2],
    [1, 4],
  ]);
  const keeping = dice.weighted([
    [5, 0],
    [4, 1],
    [3, 2],
    [1, 5],
  ]);
  return { breaking, keeping };
}
