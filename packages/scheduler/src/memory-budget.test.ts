import { describe, expect, test } from 'vitest';
import { type BudgetDecision, createMemoryBudget, type DeviceBytes, type ModelUse } from './memory-budget.ts';

const MS = 1000;
const IDLE: ModelUse = { busy: false, pinned: false, keepWarmUs: 0 };

/** A worker with a budget, whose loads are named as their models. */
function worker(budgets: DeviceBytes) {
  const budget = createMemoryBudget(budgets);
  let nowUs = 0;
  const step = (event: Parameters<typeof budget.step>[0]) => budget.step(event, nowUs).map(inWords);
  const used = (model: string, use: Partial<ModelUse> = {}) => step({ type: 'used', model, use: { ...IDLE, ...use } });
  const self = {
    budget,
    after(ms: number) {
      nowUs += ms * MS;
      return self;
    },
    claim: (model: string, cost: number | DeviceBytes, evictable = true, key = model) =>
      step({
        type: 'claimed',
        claim: { key, model, cost: typeof cost === 'number' ? { cpu: cost } : cost, evictable },
      }),
    loaded: (key: string, cost: number | DeviceBytes) =>
      step({ type: 'loaded', key, cost: typeof cost === 'number' ? { cpu: cost } : cost }),
    leaving: (key: string) => step({ type: 'leaving', key }),
    left: (key: string) => step({ type: 'left', key }),
    time: () => step({ type: 'time' }),
    used,
    /** One that was loaded and has had a request. */
    hold(model: string, cost: number | DeviceBytes, use: Partial<ModelUse> = {}, evictable = true) {
      expect(self.claim(model, cost, evictable)).toEqual([`admit ${model}`]);
      self.loaded(model, cost);
      used(model, { ...use, busy: true });
      self.after(1);
      used(model, use);
      return self;
    },
  };
  return self;
}

function inWords(decision: BudgetDecision): string {
  if (decision.type === 'evict') return `evict ${decision.model} for ${decision.for}`;
  if (decision.type === 'wake') return `wake ${decision.atUs / MS}`;
  return decision.type === 'refuse' ? `refuse ${decision.key}: ${decision.why}` : `admit ${decision.key}`;
}

describe('a load', () => {
  test('is admitted at once where it fits, and where its device has no bound', () => {
    const { claim } = worker({ cpu: 10 });
    expect(claim('a', 6)).toEqual(['admit a']);
    expect(claim('b', 4)).toEqual(['admit b']);
    expect(claim('c', { gpu0: 1000 })).toEqual(['admit c']);
  });

  test('that can never fit is refused with both figures', () => {
    const mib = 1024 * 1024;
    const { claim, hold } = worker({ cpu: 10 * mib });
    expect(claim('a', 10.5 * mib)).toEqual([
      "refuse a: model 'a' needs 10.5 MiB on cpu, and the memory budget is 10 MiB",
    ]);
    hold('b', 4 * mib, { pinned: true }).hold('c', 2 * mib, {}, false);
    expect(claim('a', 5 * mib)).toEqual([
      "refuse a: model 'a' needs 5 MiB on cpu, and the memory budget is 10 MiB, of which 6 MiB are of models that stay",
    ]);
  });

  test('beside one of its model that serves has to fit beside it', () => {
    const { hold, claim } = worker({ cpu: 10 });
    hold('a', 6);
    expect(claim('a', 6, true, 'a2')).toEqual([expect.stringMatching(/^refuse a2: /)]);
    expect(claim('a', 4, true, 'a3')).toEqual(['admit a3']);
  });

  test('has the model go whose last request ended first, once all that it took is free', () => {
    const { hold, claim, left, used } = worker({ cpu: 10 });
    hold('a', 5).hold('b', 5);
    used('a', { busy: true });
    used('a');
    expect(claim('c', 5)).toEqual(['evict a for c']);
    expect(claim('d', 5)).toEqual([]);
    expect(left('a')).toEqual(['admit c', 'evict b for d']);
    expect(left('b')).toEqual(['admit d']);
  });

  test('waits for what is busy, and takes it once it is idle', () => {
    const { hold, claim, used, left } = worker({ cpu: 10 });
    hold('a', 10);
    used('a', { busy: true });
    expect(claim('b', 5)).toEqual([]);
    expect(used('a')).toEqual(['evict a for b']);
    expect(left('a')).toEqual(['admit b']);
  });

  test.each([
    ['of one that is pinned', { pinned: true }, ['evict b for c']],
    ['of one that is kept warm', { keepWarmUs: 100 * MS }, ['evict b for c']],
  ])('does not take the room %s', (_, use, decided) => {
    const { hold, claim } = worker({ cpu: 10 });
    hold('a', 5, use).hold('b', 5);
    expect(claim('c', 5)).toEqual(decided);
  });

  test('looks again when what is kept warm may go', () => {
    const { hold, claim, after } = worker({ cpu: 10 });
    hold('a', 10, { keepWarmUs: 100 * MS });
    expect(claim('b', 5)).toEqual(['wake 101']);
    expect(after(100).time()).toEqual(['evict a for b']);
  });

  test('lets a model that was loaded have its request first, and not for ever', () => {
    const { claim, loaded, used, after, time } = worker({ cpu: 10 });
    claim('a', 10);
    loaded('a', 10);
    expect(claim('b', 10)).toEqual(['wake 5000']);
    expect(used('a', { busy: true })).toEqual([]);
    expect(used('a')).toEqual(['evict a for b']);
    const other = worker({ cpu: 10 });
    other.claim('a', 10);
    other.loaded('a', 10);
    other.claim('b', 10);
    expect(other.after(4999).time()).toEqual(['wake 5000']);
    expect(other.after(1).time()).toEqual(['evict a for b']);
    expect(after(0).time()).toEqual([]);
    expect(time()).toEqual([]);
  });

  test('holds back those behind it on its devices alone', () => {
    const { hold, claim, used, left } = worker({ cpu: 10, gpu0: 10 });
    hold('a', 8);
    used('a', { busy: true });
    expect(claim('b', 5)).toEqual([]);
    expect(claim('small', 1)).toEqual([]);
    expect(claim('g', { gpu0: 5 })).toEqual(['admit g']);
    // It is not wanted any more.
    expect(left('b')).toEqual(['admit small']);
  });

  test('counts what it took until all of it is gone', () => {
    const { hold, claim, leaving, left } = worker({ cpu: 10 });
    hold('a', 6);
    leaving('a');
    expect(claim('b', 6)).toEqual([]);
    expect(left('a')).toEqual(['admit b']);
  });

  test('that takes more than was thought has others go', () => {
    const { hold, claim, loaded, budget } = worker({ cpu: 10 });
    hold('a', 4);
    claim('b', 4);
    expect(loaded('b', 7)).toEqual(['evict a for ']);
    expect(budget.account(0)).toEqual([
      { device: 'cpu', budget: 10, used: 11, leaving: 4, fixed: 0, idleUs: undefined },
    ]);
  });
});

/** Small and seeded: a number from 0 to below 1 at each call. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

function zipf(models: number, random: () => number): () => number {
  const weights = Array.from({ length: models }, (_, rank) => 1 / (rank + 1));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return () => {
    let left = random() * total;
    const found = weights.findIndex((weight) => {
      left -= weight;
      return left < 0;
    });
    return found < 0 ? models - 1 : found;
  };
}

test('one request at a time: what is loaded is what an ideal LRU has', () => {
  const { budget } = worker({ cpu: 50 });
  const next = zipf(30, seeded(7));
  const ideal: string[] = [];
  const held = new Set<string>();
  for (let n = 0; n < 2000; n++) {
    const model = `m${next()}`;
    const nowUs = n * MS;
    const misses = !ideal.includes(model);
    expect(held.has(model)).toBe(!misses);
    ideal.splice(0, ideal.length, model, ...ideal.filter((each) => each !== model));
    ideal.length = Math.min(ideal.length, 10);
    if (misses) {
      const open = [
        ...budget.step({ type: 'claimed', claim: { key: model, model, cost: { cpu: 5 }, evictable: true } }, nowUs),
      ];
      for (const decision of open) {
        if (decision.type !== 'evict') continue;
        held.delete(decision.model);
        open.push(...budget.step({ type: 'left', key: decision.model }, nowUs));
      }
      held.add(model);
      budget.step({ type: 'loaded', key: model, cost: { cpu: 5 } }, nowUs);
    }
    budget.step({ type: 'used', model, use: { ...IDLE, busy: true } }, nowUs);
    budget.step({ type: 'used', model, use: IDLE }, nowUs);
  }
});

test.each(Array.from({ length: 20 }, (_, seed) => seed))(
  'many at a time, seed %i: each has its model in the end, and the budget holds at each change',
  (seed) => {
    const random = seeded(seed + 1);
    const next = zipf(12, random);
    const sizes = Array.from({ length: 12 }, () => 1 + Math.floor(random() * 5));
    const budget = createMemoryBudget({ cpu: 10 });
    const state = new Map<string, 'claimed' | 'loaded' | 'going'>();
    const running = new Map<string, number>();
    const events: { atUs: number; run: () => void }[] = [];
    let nowUs = 0;
    let waiting: string[] = [];
    let toCome = 300;
    let served = 0;
    const later = (run: () => void) => void events.push({ atUs: nowUs + 1 + Math.floor(random() * 500), run });
    const step = (event: Parameters<typeof budget.step>[0]) => {
      for (const decision of budget.step(event, nowUs)) decide(decision);
      for (const { used } of budget.account(nowUs)) expect(used).toBeLessThanOrEqual(10);
    };
    const cost = (model: string) => ({ cpu: sizes[Number(model.slice(1))] ?? 0 });
    const decide = (decision: BudgetDecision) => {
      if (decision.type === 'admit') {
        later(() => {
          state.set(decision.key, 'loaded');
          step({ type: 'loaded', key: decision.key, cost: cost(decision.key) });
          look();
        });
      } else if (decision.type === 'evict') {
        expect(running.get(decision.model) ?? 0).toBe(0);
        state.set(decision.model, 'going');
        later(() => {
          state.delete(decision.model);
          step({ type: 'left', key: decision.model });
          look();
        });
      } else if (decision.type === 'wake') events.push({ atUs: decision.atUs, run: () => step({ type: 'time' }) });
      else throw new Error(`refused ${decision.key}`);
    };
    const change = (model: string, by: number) => {
      const count = (running.get(model) ?? 0) + by;
      running.set(model, count);
      step({ type: 'used', model, use: { ...IDLE, busy: count > 0 } });
    };
    /** What its owner does: sends what can go, and asks for the others once. */
    const look = () => {
      const open = waiting;
      waiting = [];
      for (const model of open) {
        if (state.get(model) === 'loaded') {
          change(model, 1);
          later(() => {
            change(model, -1);
            served++;
            arrive();
            look();
          });
          continue;
        }
        waiting.push(model);
        if (state.has(model)) continue;
        state.set(model, 'claimed');
        step({ type: 'claimed', claim: { key: model, model, cost: cost(model), evictable: true } });
      }
    };
    const arrive = () => {
      if (toCome-- > 0) waiting.push(`m${next()}`);
    };
    for (let n = 0; n < 16; n++) arrive();
    look();
    while (events.length > 0 && served < 300) {
      events.sort((a, b) => a.atUs - b.atUs);
      const event = events.shift();
      nowUs = Math.max(nowUs, event?.atUs ?? 0);
      event?.run();
    }
    expect(served).toBe(300);
  },
);
