import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createReleaseOrder, type OrderedAnswer } from './release-order.ts';

/** `a` is the whole answer of request a, `a0` and `a1` parts of it, `a2!` its last one; `a0@y` of another run. */
function answer(text: string): OrderedAnswer {
  const [what = '', execution = 'x'] = text.split('@');
  const id = what.slice(0, 1);
  const chunk = what.length > 1 ? Number.parseInt(what.slice(1), 10) : 0;
  return { id, execution, chunk, last: what.length === 1 || what.endsWith('!'), bytes: 10 };
}

type Step = readonly ['sent' | 'again' | 'answered' | 'ended' | 'dropped', ...string[]];

/** Plays the steps; the chunks released by each step, ids with their chunk's number where they have several. */
function play(steps: readonly Step[]) {
  const discarded: OrderedAnswer[] = [];
  const order = createReleaseOrder<OrderedAnswer>((gone) => discarded.push(gone));
  const released = steps.map(([step, ...which]): string => {
    const out: OrderedAnswer[] = [];
    for (const one of which) {
      if (step === 'sent') order.sent(one);
      else if (step === 'again') order.waitsAgain(one);
      else if (step === 'answered') out.push(...order.answered(answer(one)));
      else if (step === 'ended') out.push(...order.ended(one));
      else out.push(...order.dropped(one));
    }
    return out.map(({ id, chunk, execution }) => `${id}${chunk}${execution === 'x' ? '' : `@${execution}`}`).join(' ');
  });
  return { released, order, discarded };
}

describe('answers go in the order in which their requests were sent', () => {
  test.each<[rule: string, steps: readonly Step[], released: readonly string[]]>([
    [
      'in order: each at once',
      [
        ['sent', 'a', 'b'],
        ['answered', 'a'],
        ['answered', 'b'],
      ],
      ['', 'a0', 'b0'],
    ],
    [
      'a slow first one holds up all behind it',
      [
        ['sent', 'a'],
        ['sent', 'b', 'c'],
        ['answered', 'c'],
        ['answered', 'b'],
        ['answered', 'a'],
      ],
      ['', '', '', '', 'a0 b0 c0'],
    ],
    [
      'streams are grouped by request, and the first one flows',
      [
        ['sent', 'a', 'b'],
        ['answered', 'a0', 'b0'],
        ['answered', 'b1'],
        ['answered', 'a1'],
        ['answered', 'a2!'],
        ['answered', 'b2'],
        ['answered', 'b3!'],
      ],
      ['', 'a0', '', 'a1', 'a2 b0 b1', 'b2', 'b3'],
    ],
    [
      'a lost batch keeps its place while it runs again',
      [
        ['sent', 'a', 'b'],
        ['again', 'a'],
        ['answered', 'b'],
        ['sent', 'c'],
        ['sent', 'a'],
        ['answered', 'c'],
        ['answered', 'a'],
      ],
      ['', '', '', '', '', '', 'a0 b0 c0'],
    ],
    [
      'one that ends without an answer releases those behind it',
      [
        ['sent', 'a', 'b', 'c'],
        ['answered', 'b'],
        ['ended', 'a'],
      ],
      ['', '', 'b0'],
    ],
    [
      'one that nobody waits for neither answers nor holds up, whether its answer is there or not',
      [
        ['sent', 'a', 'b', 'c', 'd'],
        ['answered', 'b'],
        ['answered', 'd'],
        ['dropped', 'b'],
        ['dropped', 'c'],
        ['answered', 'a'],
      ],
      ['', '', '', '', '', 'a0 d0'],
    ],
    [
      'the end of a batch after its answers changes nothing',
      [
        ['sent', 'a', 'b'],
        ['answered', 'b'],
        ['ended', 'b'],
        ['answered', 'a'],
        ['ended', 'a'],
      ],
      ['', '', '', 'a0 b0', ''],
    ],
    [
      'a second run: its answer takes the place of the parts of the first, whose rest is dropped',
      [
        ['sent', 'a', 'b'],
        ['answered', 'b0', 'b1'],
        ['answered', 'b0@y'],
        ['answered', 'b2!'],
        ['answered', 'b1!@y'],
        ['answered', 'a'],
      ],
      ['', '', '', '', '', 'a0 b0@y b1@y'],
    ],
    [
      'a second whole answer is dropped',
      [
        ['sent', 'a', 'b'],
        ['answered', 'b'],
        ['again', 'b'],
        ['sent', 'b'],
        ['answered', 'b@y'],
        ['answered', 'a'],
      ],
      ['', '', '', '', '', 'a0 b0'],
    ],
    [
      'parts without an end are dropped where none comes: the request is sent again',
      [
        ['sent', 'a', 'b'],
        ['answered', 'b0'],
        ['ended', 'b'],
        ['answered', 'a'],
      ],
      ['', '', '', 'a0'],
    ],
    [
      'a request that comes again after it ended without an answer has a new place',
      [
        ['sent', 'a', 'b', 'c'],
        ['ended', 'b'],
        ['sent', 'b'],
        ['answered', 'b'],
        ['answered', 'a'],
        ['answered', 'c'],
      ],
      ['', '', '', '', 'a0', 'c0 b0'],
    ],
  ])('%s', (_rule, steps, released) => {
    expect(play(steps).released).toEqual(released);
  });

  test('what is held is counted until it goes or is dropped, and each drop is told', () => {
    const { order, discarded } = play([
      ['sent', 'a', 'b', 'c', 'd'],
      ['answered', 'b', 'c0', 'c1', 'd'],
    ]);
    expect([order.answersHeld, order.bytesHeld]).toEqual([4, 40]);
    expect([order.keeps('b'), order.keeps('c'), order.has('c'), order.has('x')]).toEqual([true, false, true, false]);
    order.dropped('c');
    expect([order.answersHeld, order.bytesHeld]).toEqual([2, 20]);
    expect(discarded.map(({ id, chunk }) => `${id}${chunk}`)).toEqual(['c0', 'c1']);
    order.clear();
    expect([order.answersHeld, order.bytesHeld, discarded.length]).toEqual([0, 0, 4]);
    expect(order.has('a')).toBe(false);
  });

  test('those that wait to run again are counted, until they go out or end', () => {
    const { order } = play([
      ['sent', 'a', 'b'],
      ['again', 'a', 'b', 'x'],
    ]);
    expect(order.waitingAgain).toBe(2);
    order.sent('a');
    expect(order.waitingAgain).toBe(1);
    order.ended('b');
    expect(order.waitingAgain).toBe(0);
  });

  test('whatever happens: released in the order of the first sending, each once, and nothing is left at the end', () => {
    const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
    const step = fc.tuple(
      fc.constantFrom('sent' as const, 'again' as const, 'answered' as const, 'ended' as const, 'dropped' as const),
      fc.constantFrom(...ids),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const order = createReleaseOrder<OrderedAnswer>();
        const sent: string[] = [];
        const released: string[] = [];
        const take = (answers: readonly OrderedAnswer[]) => released.push(...answers.map(({ id }) => id));
        for (const [kind, id] of steps) {
          // Each has one place here: what comes again after its end is another request.
          if (kind === 'sent' && !sent.includes(id)) {
            sent.push(id);
            order.sent(id);
          } else if (kind === 'again') order.waitsAgain(id);
          else if (kind === 'sent' && order.has(id)) order.sent(id);
          else if (kind === 'answered') take(order.answered(answer(id)));
          else if (kind === 'ended') take(order.ended(id));
          else if (kind === 'dropped') take(order.dropped(id));
        }
        for (const id of sent) take(order.ended(id));
        const places = released.map((id) => sent.indexOf(id));
        expect(places).toEqual([...new Set(places)].sort((a, b) => a - b));
        expect([order.answersHeld, order.bytesHeld, order.waitingAgain]).toEqual([0, 0, 0]);
        for (const id of sent) expect(order.has(id)).toBe(false);
      }),
    );
  });
});
