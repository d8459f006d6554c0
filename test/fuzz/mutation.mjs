/**
 * What is expected of a request: `valid`, its right values; `refused`, an error that is the client's; `any` answer that
 * is in order. Mutations take certainty away; of two, the second may undo the first.
 */

/** Notes that a request is no longer what it was. `how`: `refused` where that is sure. */
export function hurt(request, how = 'any') {
  request.expect = request.expect === 'valid' ? how : 'any';
}
