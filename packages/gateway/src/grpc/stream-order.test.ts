import { describe, expect, test } from 'vitest';
import { type AnswerOrder, createStreamOrder } from './stream-order.ts';

const LIMITS = { grpc_stream_requests_max: 3, grpc_stream_bytes_max: 100 };
const BYTES = 1;

/** `t`, `p`: a request in turn, or answered as produced. `0:a`: an answer of request 0, `0!a` its last, `0.` its end. */
type Step = 't' | 'p' | `${number}:${string}` | `${number}!${string}` | `${number}.`;

/** What is let go after each answer or end, joined. */
function letGo(steps: readonly Step[]): readonly string[] {
  const order = createStreamOrder<string>({ ...LIMITS, grpc_stream_requests_max: 100 });
  const orders: Readonly<Record<string, AnswerOrder>> = { t: 'in-turn', p: 'as-produced' };
  const found: string[] = [];
  for (const step of steps) {
    const begun = orders[step];
    const [, request = '', kind, answer = ''] = /^(\d+)([:!.])(.*)$/.exec(step) ?? [];
    if (begun !== undefined) order.begin(begun, BYTES);
    else if (kind === '.') found.push(order.end(Number(request)).join(''));
    else found.push(order.answer(Number(request), answer, BYTES, kind === '!').join(''));
  }
  return found;
}

describe('which answers are let go', () => {
  test.each<readonly [string, readonly Step[], readonly string[]]>([
    ['one request, one answer', ['t', '0!a'], ['a']],
    ['in the order of the requests', ['t', 't', '0!a', '1!b'], ['a', 'b']],
    ['a later one waits for its turn', ['t', 't', 't', '2!c', '1!b', '0!a'], ['', '', 'abc']],
    ['up to the first without an answer', ['t', 't', 't', '0!a', '2!c', '1!b'], ['a', '', 'bc']],
    ['a request that comes later waits too', ['t', 't', '1!b', 't', '2!c', '0!a'], ['', '', 'abc']],
    ['as produced: at once, any number', ['p', '0:a', '0:b', '0!c'], ['a', 'b', 'c']],
    ['as produced: past a slow one in turn', ['t', 'p', '1:b', '1!c', '0!a'], ['b', 'c', 'a']],
    ['in turn: past a slow one as produced', ['p', 't', '1!b', '0!a'], ['b', 'a']],
    ['two as produced, interleaved', ['p', 'p', '0:a', '1:b', '0:c', '1!d', '0!e'], ['a', 'b', 'c', 'd', 'e']],
    ['one as produced without an answer', ['p', '0.'], ['']],
    ['one in turn without an answer lets the next go', ['t', 't', '1!b', '0.'], ['', 'b']],
    ['nothing after the last', ['p', 't', '0!a', '0:b', '0.', '1!c', '1!d'], ['a', '', '', 'c', '']],
    ['nothing after the last, while its turn has not come', ['t', 't', '1!b', '1!c', '0!a'], ['', '', 'ab']],
    ['of a request that is none', ['t', '7!x', '7.', '0!a'], ['', '', 'a']],
  ])('%s', (_, steps, expected) => {
    expect(letGo(steps)).toEqual(expected);
  });
});

describe('whether another request is read', () => {
  test('up to so many in flight, whose answers may be held', () => {
    const order = createStreamOrder<string>(LIMITS);
    const requests = [order.begin('in-turn', BYTES), order.begin('in-turn', BYTES)];
    expect([order.full, order.idle]).toEqual([false, false]);
    order.begin('as-produced', BYTES);
    expect(order.full).toBe(true);
    order.answer(requests[1] ?? -1, 'b', BYTES, true);
    expect(order.full).toBe(true);
    order.answer(requests[0] ?? -1, 'a', BYTES, true);
    expect([order.full, order.idle]).toEqual([false, false]);
    order.end(2);
    expect(order.idle).toBe(true);
  });

  test.each([
    ['of requests', 100, 0],
    ['of an answer that is held', 1, 99],
  ])('up to so many bytes %s', (_, requestBytes, answerBytes) => {
    const order = createStreamOrder<string>({ ...LIMITS, grpc_stream_requests_max: 100 });
    const [first, second] = [order.begin('in-turn', requestBytes - 1), order.begin('in-turn', 1)];
    if (answerBytes > 0) {
      expect(order.full).toBe(false);
      order.answer(second, 'b', answerBytes, true);
    }
    expect(order.full).toBe(true);
    order.answer(first, 'a', 1_000, true);
    order.end(second);
    expect([order.full, order.idle]).toEqual([false, true]);
  });

  test('an answer that is let go at once is never held', () => {
    const order = createStreamOrder<string>(LIMITS);
    const request = order.begin('as-produced', BYTES);
    order.answer(request, 'a', 1_000, false);
    expect(order.full).toBe(false);
  });
});
