/** The rules of docs/protocol.md that a worker keeps of sequences, one table for each. */
import { describe, expect, it, test } from 'vitest';
import type { StepAnswer } from './kept-answers.ts';
import { createSessionSlots, type SessionSlots, type Step, type StepDecision } from './session-slots.ts';

const LIMITS = { sequence_answers_max: 16, sequence_answers_waited_max: 64, sequence_answer_bytes_max: 1_000 };
const S = 1_000_000;
const ALL = { whole: true, admits: true };

type Given = Partial<Omit<Step, 'order'>> & { readonly g: number } & Partial<Step['order']>;

const step = ({ g, low = 1, prev = 0, number = -1, bind = { epoch: 1, n: 1 }, ...more }: Given): Step => ({
  id: `${more.sender ?? 'a'}:${g}`,
  sender: 'a',
  session: 'a:1',
  correlationId: 5n,
  start: g === 1,
  instance: 0,
  slot: 0,
  ...more,
  order: { bind, g, low, prev, number },
});

const answer = (name: string, bytes = 10): StepAnswer => ({ execution: name, parts: [], bytes });

/** What was decided, in a word. */
const word = (decision: StepDecision): string => {
  if (decision.type === 'leave') return decision.result;
  if (decision.type === 'replay') return `replay ${decision.answer?.execution ?? 'nothing'}`;
  return decision.type === 'refuse' ? `refuse ${decision.error.reason}` : 'run';
};

function table() {
  const slots = createSessionSlots('m', LIMITS);
  const take = (given: Given, nowUs = 0, how = ALL) => word(slots.take(step(given), how, nowUs));
  /** Takes a step and ends it; its answer is named by its id. */
  const run = (given: Given, end: 'step' | 'end' = 'step', nowUs = 0, bytes = 10) => {
    const taken = step(given);
    const decided = word(slots.take(taken, ALL, nowUs));
    if (decided === 'run') {
      slots.over(taken, { type: 'applied', ends: end === 'end', answer: answer(taken.id, bytes) }, nowUs);
    }
    return decided;
  };
  return { slots, take, run };
}

const described = (slots: SessionSlots, nowUs = 0) => {
  const { slots: live, ended } = slots.describe(nowUs);
  return [
    ...live.map(({ session }) => session),
    ...ended.map(({ session, lost }) => `${session} ${lost ? 'lost' : 'ended'}`),
  ];
};

describe('R14: a step is applied above the mark of its sender alone', () => {
  test.each<[string, readonly Given[], Given, string]>([
    ['its START begins a session', [], { g: 1 }, 'run'],
    ['a step above the mark', [{ g: 1 }], { g: 2 }, 'run'],
    ['the same step once more', [{ g: 1 }, { g: 2 }], { g: 2 }, 'replay a:2'],
    ['an earlier step', [{ g: 1 }, { g: 2 }, { g: 3 }], { g: 2 }, 'replay a:2'],
    ['a step of another sender with a lower g', [{ g: 1 }, { g: 9 }], { g: 3, sender: 'b' }, 'run'],
    ['an earlier step of that other sender', [{ g: 1 }, { g: 3, sender: 'b' }], { g: 2, sender: 'b' }, 'lost'],
    ['a START of a session that lives (R21)', [{ g: 1 }, { g: 2 }], { g: 1 }, 'replay a:1'],
    ['a step of a session that nobody knows', [], { g: 2 }, 'noslot'],
    ['one that its sender no longer waits for', [{ g: 1 }, { g: 2, low: 2 }], { g: 1 }, 'replay nothing'],
    ['one for another slot than its session has', [{ g: 1 }], { g: 2, slot: 1 }, 'noslot'],
    ['one for another instance than its session has', [{ g: 1 }], { g: 2, instance: 1 }, 'noslot'],
    ['one whose owner takes its session for ended', [{ g: 1 }], { g: 2, slot: -1 }, 'noslot'],
    ['one done before whose owner takes its session for ended', [{ g: 1 }], { g: 1, slot: -1 }, 'replay a:1'],
  ])('%s', (_, before, given, expected) => {
    const { run, take } = table();
    for (const each of before) expect(run(each)).toBe('run');
    expect(take(given)).toBe(expected);
  });

  it('closes as lost where a step was done and its answer is not kept', () => {
    const { slots, run, take } = table();
    run({ g: 1 }, 'step', 0, LIMITS.sequence_answer_bytes_max + 1);
    expect(take({ g: 1 })).toBe('lost');
    expect(described(slots)).toEqual(['a:1 lost']);
    expect(take({ g: 2 })).toBe('lost');
  });

  it('keeps the marks of 256 senders: one that is forgotten may have sent anything before', () => {
    const { run } = table();
    run({ g: 1 });
    for (let i = 0; i < 256; i++) expect(run({ g: 7, sender: `gw-${i}` })).toBe('run');
    expect(run({ g: 8, sender: 'gw-0' })).toBe('run');
    expect(run({ g: 2 })).toBe('lost');
  });
});

describe('R16: a step waits for the one before it', () => {
  test.each<[string, Given, string]>([
    ['one whose earlier one is done', { g: 4, prev: 2 }, 'run'],
    ['one whose earlier one is missing', { g: 4, prev: 3 }, 'gap'],
    ['one of another sender whose earlier one is missing', { g: 4, prev: 2, sender: 'b' }, 'gap'],
    ['one that has none', { g: 4 }, 'run'],
  ])('%s', (_, given, expected) => {
    const { run, take } = table();
    run({ g: 1 });
    run({ g: 2 });
    expect(take(given)).toBe(expected);
  });
});

describe('R18, R25: one step of a session runs', () => {
  it('takes a copy of the running step for what it is, and no other', () => {
    const { slots, take } = table();
    const running = step({ g: 1 });
    expect(word(slots.take(running, ALL, 0))).toBe('run');
    expect(take({ g: 1 })).toBe('duplicate');
    expect(take({ g: 2 })).toBe('gap');
    slots.over(running, { type: 'applied', ends: false, answer: undefined }, 0);
    expect(take({ g: 2 })).toBe('run');
  });
});

describe('R20: answers and ended sessions are kept', () => {
  it('until the low of their sender passes them', () => {
    const { run, take } = table();
    run({ g: 1 });
    run({ g: 2, sender: 'b' });
    run({ g: 3, low: 3 });
    expect(take({ g: 3 })).toBe('replay a:3');
    // Of another sender, which has not said so.
    expect(take({ g: 2, sender: 'b' })).toBe('replay b:2');
  });

  it('of a sequence as many as a sender that stands still may not have read yet', () => {
    const { run, take } = table();
    for (let g = 1; g <= 65; g++) run({ g }, 'step', 0, 1);
    expect(take({ g: 2 })).toBe('replay a:2');
    expect(take({ g: 1 })).toBe('lost');
  });

  it('up to a number of bytes over all sequences, the oldest first', () => {
    const { run, take } = table();
    run({ g: 1 }, 'step', 0, 400);
    run({ g: 2, session: 'a:2', start: true, slot: 1 }, 'step', 0, 400);
    run({ g: 3, session: 'a:2', slot: 1 }, 'step', 0, 400);
    expect(take({ g: 2, session: 'a:2', slot: 1 })).toBe('replay a:2');
    expect(take({ g: 1 })).toBe('lost');
  });

  test.each<[string, Given, string]>([
    ['its END', { g: 2, slot: -1 }, 'replay a:2'],
    ['its START', { g: 1 }, 'replay a:1'],
    ['what its marks do not cover (R13)', { g: 3, slot: -1 }, 'noslot'],
    ['a step of another sender', { g: 2, sender: 'b', slot: -1 }, 'noslot'],
  ])('END leaves what tells of %s', (_, given, expected) => {
    const { slots, run, take } = table();
    run({ g: 1 });
    run({ g: 2 }, 'end');
    expect(slots.size).toBe(0);
    expect(take(given)).toBe(expected);
  });

  it('ended sessions for 10 s, and then until their senders have all their answers, 64 of them', () => {
    const { slots, run } = table();
    for (let g = 1; g <= 100; g++) run({ g, session: `a:${g}`, start: true }, 'end');
    expect(slots.describe(10 * S - 1).ended).toHaveLength(100);
    expect(slots.describe(10 * S).ended).toHaveLength(64);
    run({ g: 101, low: 90, session: 'a:101', start: true }, 'end', 10 * S);
    expect(slots.describe(10 * S).ended.map(({ session }) => session)).toEqual(
      Array.from({ length: 12 }, (_, i) => `a:${90 + i}`),
    );
  });

  it('1,024 ended sessions at most', () => {
    const { slots, run } = table();
    for (let g = 1; g <= 1_025; g++) run({ g, session: `a:${g}`, start: true }, 'end');
    const { ended } = slots.describe(0);
    expect([ended.length, ended[0]?.session]).toEqual([1_024, 'a:2']);
  });
});

describe('R21: who has a slot', () => {
  const other = (n: number, epoch = 1): Given => ({ g: 5, session: 'a:5', start: true, bind: { epoch, n } });

  test.each<[string, Given, string, readonly string[]]>([
    ['a START that was bound later takes it', other(2), 'run', ['a:5', 'a:1 ended']],
    ['also one that a later owner bound', other(0, 2), 'run', ['a:5', 'a:1 ended']],
    ['one that was bound earlier does not', other(0), 'noslot', ['a:1']],
    ['one without its data leaves it (R29)', { ...other(2), id: 'no data' }, 'blob', ['a:1']],
  ])('%s', (_, given, expected, left) => {
    const { slots, run, take } = table();
    run({ g: 1 });
    expect(take(given, 0, { whole: given.id !== 'no data', admits: true })).toBe(expected);
    expect(described(slots)).toEqual(left);
  });

  it('a session whose slot is taken while its step runs ends after it', () => {
    const { slots, take } = table();
    const running = step({ g: 1 });
    slots.take(running, ALL, 0);
    expect(take(other(2))).toBe('run');
    expect(described(slots)).toEqual(['a:5', 'a:1 ended']);
    expect(slots.over(running, { type: 'applied', ends: false, answer: answer('late') }, 0)).toBe(undefined);
    expect(take({ g: 1, slot: -1 })).toBe('replay late');
    expect(take({ g: 2 })).toBe('noslot');
  });

  it('a START goes into no slot that is none', () => {
    expect(table().take({ g: 1, slot: -1 })).toBe('noslot');
  });
});

describe('R22: numbered steps', () => {
  test.each<[string, Given, string]>([
    ['the one that is due', { g: 9, number: 2 }, 'run'],
    ['the one that is due, of another gateway', { g: 1, number: 2, sender: 'b', start: false }, 'run'],
    ['one that was done', { g: 9, number: 1 }, 'replay a:2'],
    ['one that was done, of another gateway', { g: 9, number: 0, sender: 'b' }, 'replay a:1'],
    ['a START that was done', { g: 9, number: 0, start: true }, 'replay a:1'],
    ['one that is not due', { g: 9, number: 3 }, 'refuse step_gap'],
    ['one that is due and names an earlier one as missing', { g: 9, number: 2, prev: 8 }, 'run'],
  ])('%s', (_, given, expected) => {
    const { run, take } = table();
    run({ g: 1, number: 0 });
    // The low of a sender does not pass them: their client may ask again through another.
    run({ g: 2, number: 1, low: 2 });
    expect(take(given)).toBe(expected);
  });

  it('refuses what was done before the 16 answers that are kept though their senders have them', () => {
    const { slots, run, take } = table();
    for (let n = 0; n < 17; n++) run({ g: n + 1, number: n });
    expect(take({ g: 30, number: 0, sender: 'b' })).toBe('replay a:1');
    run({ g: 18, low: 18, number: 17 });
    expect(take({ g: 30, number: 0, sender: 'b' })).toBe('refuse answer_expired');
    expect(take({ g: 31, number: 1, sender: 'b' })).toBe('replay a:2');
    expect(slots.size).toBe(1);
  });

  it('tells of those of an ended session what it has', () => {
    const { run, take } = table();
    run({ g: 1, number: 0 });
    run({ g: 2, number: 1 }, 'end');
    expect(take({ g: 3, number: 1, sender: 'b', slot: -1 })).toBe('replay a:2');
    expect(take({ g: 4, number: 2, sender: 'b', slot: -1 })).toBe('noslot');
  });

  it('lets the marks of senders go on, and begins with 0', () => {
    const { run, take } = table();
    expect(take({ g: 1, number: 1 })).toBe('refuse step_gap');
    run({ g: 1, number: 0 });
    take({ g: 2, number: 0 });
    take({ g: 3, number: 5 });
    expect(take({ g: 4, prev: 3 })).toBe('run');
  });
});

describe('what becomes of a session when a step is over', () => {
  test.each<[string, Parameters<SessionSlots['over']>[1], readonly unknown[]]>([
    ['answered', { type: 'applied', ends: false, answer: undefined }, [undefined, ['a:1']]],
    ['its END answered', { type: 'applied', ends: true, answer: undefined }, [undefined, ['a:1 ended']]],
    ['to run again', { type: 'again', nextChunk: 3 }, ['again', ['a:1']]],
    ['cancelled (R19)', { type: 'cancelled' }, [undefined, ['a:1 ended']]],
    ['lost with its carrier', { type: 'lost' }, ['lost', ['a:1 lost']]],
    ['never seen by the model', { type: 'unseen' }, ['lost', ['a:1 lost']]],
  ])('%s', (_, end, expected) => {
    const { slots, run } = table();
    run({ g: 1 });
    const running = step({ g: 2 });
    slots.take(running, ALL, 0);
    expect([slots.over(running, end, 0), described(slots)]).toEqual(expected);
  });

  it('a START that the model never saw leaves nothing, and may come again', () => {
    const { slots, take } = table();
    const running = step({ g: 1 });
    slots.take(running, ALL, 0);
    slots.lost(0, 0);
    expect(slots.over(running, { type: 'unseen' }, 0)).toBe('noslot');
    expect(described(slots)).toEqual([]);
    expect(take({ g: 1 })).toBe('run');
  });

  it('a START that was lost does not come again', () => {
    const { slots, take } = table();
    const running = step({ g: 1 });
    slots.take(running, ALL, 0);
    expect(slots.over(running, { type: 'lost' }, 0)).toBe('lost');
    expect(take({ g: 1 })).toBe('lost');
  });

  it('a step that is to run again goes on with its chunks, and is told of again to one who did not hear of it', () => {
    const { slots, take } = table();
    const running = step({ g: 1 });
    slots.take(running, ALL, 0);
    slots.over(running, { type: 'again', nextChunk: 3 }, 0);
    expect(slots.nextChunk('a:1')).toBe(3);
    expect(take({ g: 1, start: true })).toBe('again');
    expect(take({ g: 1, start: false })).toBe('run');
  });
});

describe('what ends sessions from outside', () => {
  const two = () => {
    const made = table();
    made.run({ g: 1 });
    made.run({ g: 2, session: 'a:2', start: true, instance: 1 });
    return made;
  };

  it('its owner gives a slot back: at once, or after the running step', () => {
    const { slots, take } = two();
    const running = step({ g: 3, session: 'a:2', instance: 1 });
    slots.take(running, ALL, 0);
    slots.free('a:1', 0);
    slots.free('a:2', 0);
    slots.free('unknown', 0);
    expect([slots.size, described(slots)]).toEqual([1, ['a:1 ended', 'a:2 ended']]);
    slots.over(running, { type: 'applied', ends: false, answer: answer('last') }, 0);
    expect([slots.size, described(slots)]).toEqual([0, ['a:1 ended', 'a:2 ended']]);
    expect(take({ g: 3, session: 'a:2', slot: -1 })).toBe('replay last');
  });

  it('the state of an instance is lost, of all with it', () => {
    const { slots } = two();
    slots.lost(1, 0);
    expect(described(slots)).toEqual(['a:1', 'a:2 lost']);
    slots.lost(undefined, 0);
    expect(described(slots)).toEqual(['a:2 lost', 'a:1 lost']);
  });

  it('a session that loses its state after its last answer has lost nothing', () => {
    const { slots } = two();
    const running = step({ g: 3 });
    slots.take(running, ALL, 0);
    slots.lost(0, 0);
    expect(described(slots)).toEqual(['a:2', 'a:1 lost']);
    slots.over(running, { type: 'applied', ends: true, answer: answer('last') }, 0);
    expect(described(slots)).toEqual(['a:2', 'a:1 ended']);
  });

  it('R10: a worker that goes on under another id knows of none', () => {
    const { slots, take } = two();
    const running = step({ g: 3 });
    slots.take(running, ALL, 0);
    slots.drop();
    expect(described(slots)).toEqual([]);
    expect(slots.over(running, { type: 'applied', ends: false, answer: answer('late') }, 0)).toBe(undefined);
    expect(take({ g: 4 })).toBe('noslot');
  });

  it('R38: a worker that drains goes on with those that live and begins none', () => {
    const { slots, take } = two();
    const draining = { whole: true, admits: false };
    expect(take({ g: 3, session: 'a:3', start: true }, 0, draining)).toBe('noslot');
    expect(take({ g: 3 }, 0, draining)).toBe('run');
    expect(slots.size).toBe(2);
  });
});
