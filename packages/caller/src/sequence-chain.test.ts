import { describe, expect, test } from 'vitest';
import {
  type Chain,
  type ChainedStep,
  isBlank,
  isHeld,
  isUnfinished,
  joinChain,
  leaveChain,
  movedStep,
  newChain,
  type StepEnd,
  stepBefore,
} from './sequence-chain.ts';
import { createSequenceChains } from './sequence-chains.ts';

/** `S`, `E` and `#n` in a step's text: START, END and its number. */
function joined(chain: Chain, g: number, text: string): ChainedStep {
  const number = /#(\d+)/.exec(text)?.[1];
  const step: ChainedStep = {
    id: `gw-1:${g}`,
    g,
    start: text.includes('S'),
    end: text.includes('E'),
    number: number === undefined ? -1 : Number(number),
    session: null,
    sends: 1,
  };
  joinChain(chain, step);
  return step;
}

function chainOf(...texts: string[]) {
  const chain = newChain('m', 5n);
  return { chain, steps: texts.map((text, index) => joined(chain, index + 1, text)) };
}

const at = <T>(list: readonly T[], index: number): T => {
  const found = list[index];
  if (found === undefined) throw new Error(`nothing at ${index}`);
  return found;
};

describe('R12: the session that a step names', () => {
  test.each<[string, string[], (string | null)[]]>([
    ['a START its own id, later steps that of their START', ['S', '', 'E'], ['gw-1:1', 'gw-1:1', 'gw-1:1']],
    ['none where it is not known', ['', ''], [null, null]],
    ['none behind an END', ['S', 'E', ''], ['gw-1:1', 'gw-1:1', null]],
    ['none behind a START that is the END too', ['SE', ''], ['gw-1:1', null]],
    ['of a START under a live id the new one', ['S', 'S', ''], ['gw-1:1', 'gw-1:2', 'gw-1:2']],
  ])('%s', (_name, texts, sessions) => {
    expect(chainOf(...texts).steps.map(({ session }) => session)).toEqual(sessions);
  });
});

describe('R16: the step before', () => {
  test('is the nearest earlier one that is unfinished, of whatever session', () => {
    const { chain, steps } = chainOf('S', '', 'S', '');
    expect(steps.map((step) => stepBefore(chain, step))).toEqual([0, 1, 2, 3]);
    leaveChain(chain, at(steps, 1), 'done');
    leaveChain(chain, at(steps, 2), 'done');
    expect(stepBefore(chain, at(steps, 3))).toBe(1);
  });
});

describe('R17: a step is held', () => {
  test.each<[string, string[], boolean[]]>([
    ['behind an earlier one of its session', ['S', '', ''], [false, true, true]],
    ['not behind one of another session', ['S', 'E', 'S', ''], [false, true, false, true]],
    ['behind one whose session is not known either', ['', ''], [false, true]],
    ['behind any where both are numbered', ['#3', 'S#0', '#1'], [false, true, true]],
  ])('%s', (_name, texts, held) => {
    const { chain, steps } = chainOf(...texts);
    expect(steps.map((step) => isHeld(chain, step))).toEqual(held);
  });
});

describe('R19: what becomes of the others', () => {
  const g = (steps: readonly ChainedStep[]) => steps.map((step) => step.g);
  test.each<[string, string[], number, StepEnd, number[], number | undefined, boolean, number[]]>([
    ['a step is done: the next may be handed out', ['S', '', ''], 0, 'done', [], 2, false, [2, 3]],
    ['of two sessions the next of its own', ['S', 'S', '', ''], 1, 'done', [], 3, false, [1, 3, 4]],
    [
      'a step failed: the later ones of its session fail',
      ['S', '', '', 'S'],
      1,
      'closed',
      [3],
      undefined,
      false,
      [1, 4],
    ],
    ['an older session is over: the newer one goes on', ['S', '', 'S', ''], 0, 'closed', [2], undefined, false, [3, 4]],
    ['a numbered step failed: the next one is sent again', ['S#0', '#1', '#2'], 0, 'closed', [], 2, true, [2, 3]],
  ])('%s', (_name, texts, index, end, failed, released, again, unfinished) => {
    const { chain, steps } = chainOf(...texts);
    const after = leaveChain(chain, at(steps, index), end);
    expect([g(after.failed), after.released?.g, after.again]).toEqual([failed, released, again]);
    expect(g(chain.unfinished)).toEqual(unfinished);
    expect(steps.filter((step) => isUnfinished(chain, step))).toEqual(chain.unfinished);
  });

  test('nothing is kept of a sequence that came to its END', () => {
    const { chain, steps } = chainOf('S', '', 'E', 'SE');
    for (const step of steps) leaveChain(chain, step, 'done');
    expect(isBlank(chain)).toBe(true);
  });
});

describe('R13, R15: a step whose owner has another session', () => {
  const lost = { type: 'fail', reason: 'sequence_lost', close: null };
  const start = { type: 'fail', reason: undefined, close: null };
  const told = (chain: Chain, step: ChainedStep, sent: string | null, current: string | null) => {
    const verdict = movedStep(chain, step, sent, current);
    if (verdict.type === 'adopt') return { type: 'adopt', g: verdict.steps.map((each) => each.g) };
    return verdict.type === 'fail' ? { type: 'fail', reason: verdict.error.reason, close: verdict.close } : verdict;
  };

  test.each<[string, (string | null)[], number, (string | null)[], unknown]>([
    ['none named, there is one', [null], 0, [null, 'gw-2:7'], { type: 'adopt', g: [1] }],
    ['with it all later ones that named none', [null, null], 0, [null, 'gw-2:7'], { type: 'adopt', g: [1, 2] }],
    ['none named, there is none', [null], 0, [null, null], start],
    ['another was named, once', ['gw-2:3'], 0, ['gw-2:3', 'gw-2:7'], { type: 'adopt', g: [1] }],
    ['the one that was named is gone', ['gw-2:3'], 0, ['gw-2:3', null], lost],
    ['an answer to an earlier name', ['gw-2:7'], 0, ['gw-2:3', 'gw-2:7'], { type: 'ignore' }],
  ])('%s', (_name, sessions, index, [sent = null, current = null], expected) => {
    const { chain, steps } = chainOf(...sessions.map(() => ''));
    for (const [i, step] of steps.entries()) step.session = sessions[i] ?? null;
    expect(told(chain, at(steps, index), sent, current)).toEqual(expected);
  });

  test('sent twice under a name that is refused: one copy may have taken effect', () => {
    const { chain, steps } = chainOf('');
    const step = at(steps, 0);
    step.session = 'gw-2:3';
    step.sends = 2;
    expect(told(chain, step, 'gw-2:3', 'gw-2:7')).toEqual(lost);
  });

  test('sent twice without a name: nothing is executed without one', () => {
    const { chain, steps } = chainOf('');
    at(steps, 0).sends = 2;
    expect(told(chain, at(steps, 0), null, 'gw-2:7')).toEqual({ type: 'adopt', g: [1] });
    expect(at(steps, 0)).toMatchObject({ session: 'gw-2:7', sends: 0 });
  });

  test('a START never goes on with another session', () => {
    const { chain, steps } = chainOf('S');
    expect(told(chain, at(steps, 0), 'gw-1:1', 'gw-2:7')).toEqual(lost);
  });

  test('no step goes on with a session that began here behind it', () => {
    const { chain, steps } = chainOf('', 'S');
    expect(told(chain, at(steps, 0), null, 'gw-1:2')).toEqual(lost);
  });

  test('a step behind an END needs a START', () => {
    const { chain, steps } = chainOf('S', 'E', '');
    expect(told(chain, at(steps, 2), null, 'gw-1:1')).toEqual(start);
  });

  test('nor with one that a failure ended here, of which its owner has not heard', () => {
    const { chain, steps } = chainOf('S');
    leaveChain(chain, at(steps, 0), 'closed');
    const next = joined(chain, 2, '');
    expect(next.session).toBeNull();
    expect(told(chain, next, null, 'gw-1:1')).toEqual({ ...lost, close: 'gw-1:1' });
    expect(told(chain, next, null, null)).toEqual(lost);
  });

  test('nor with the one that a START was to end which failed', () => {
    const { chain, steps } = chainOf('S', 'S');
    leaveChain(chain, at(steps, 0), 'done');
    leaveChain(chain, at(steps, 1), 'closed');
    expect(told(chain, joined(chain, 3, ''), null, 'gw-1:1')).toEqual({ ...lost, close: 'gw-1:1' });
  });

  test('what failed before a START is nothing to the sequence that another gateway began behind it', () => {
    const { chain, steps } = chainOf('');
    leaveChain(chain, at(steps, 0), 'closed');
    leaveChain(chain, joined(chain, 2, 'SE'), 'done');
    expect(told(chain, joined(chain, 3, ''), null, 'gw-2:7')).toEqual({ type: 'adopt', g: [3] });
  });

  test('nothing is kept of a sequence whose END went on with another session', () => {
    const { chain } = chainOf();
    chain.session = 'gw-2:3';
    const end = joined(chain, 1, 'E');
    expect(told(chain, end, 'gw-2:3', 'gw-2:7')).toEqual({ type: 'adopt', g: [1] });
    leaveChain(chain, end, 'done');
    expect(isBlank(chain)).toBe(true);
  });

  test('nor with one whose step failed before it was known', () => {
    const { chain, steps } = chainOf('');
    leaveChain(chain, at(steps, 0), 'closed');
    const next = joined(chain, 2, '');
    expect(told(chain, next, null, 'gw-2:7')).toEqual({ ...lost, close: 'gw-2:7' });
    leaveChain(chain, next, 'closed');
    const fresh = joined(chain, 3, 'S');
    leaveChain(chain, fresh, 'done');
    expect(joined(chain, 4, '').session).toBe('gw-1:3');
  });

  test('R22: a numbered step goes on with whatever there is', () => {
    const { chain, steps } = chainOf('#4');
    at(steps, 0).session = 'gw-2:3';
    at(steps, 0).sends = 3;
    expect(told(chain, at(steps, 0), 'gw-2:3', 'gw-2:7')).toEqual({ type: 'adopt', g: [1] });
    at(steps, 0).session = null;
    expect(told(chain, at(steps, 0), null, null)).toEqual(lost);
  });
});

describe('chains', () => {
  test('are kept to a bound, those used longest ago dropped first', () => {
    const chains = createSequenceChains(2);
    const use = (id: bigint | string) => {
      const chain = chains.take('m', id);
      const step = joined(chain, 1, 'S');
      leaveChain(chain, step, 'done');
      chains.left(chain);
      return chain;
    };
    const [first, second] = [use(1n), use('1')];
    expect(chains.take('m', 1n)).toBe(first);
    chains.left(first);
    use(3n);
    expect(chains.size).toBe(2);
    expect(chains.take('m', 1n)).toBe(first);
    expect(chains.take('m', '1')).not.toBe(second);
    expect(chains.take('n', 1n)).not.toBe(first);
  });

  test('with unfinished steps are never dropped', () => {
    const chains = createSequenceChains(0);
    const chain = chains.take('m', 1n);
    joined(chain, 1, 'S');
    chains.left(chain);
    expect(chains.take('m', 1n)).toBe(chain);
    leaveChain(chain, at(chain.unfinished, 0), 'done');
    chains.left(chain);
    expect(chains.size).toBe(0);
  });
});
