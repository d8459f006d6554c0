import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createRateLimiter, type LimitedInstance } from './rate-limiter.ts';

const R = (count: number, name = 'R') => ({ name, count, global: false });
const G = (count: number, name = 'G') => ({ name, count, global: true });

type Given = Partial<LimitedInstance> & Pick<LimitedInstance, 'resources'>;

function limiter(...instances: readonly Given[]) {
  const rule = createRateLimiter([]);
  expect(rule.add(instances.map((instance, key) => ({ key, priority: 0, device: 0, ...instance })))).toBeUndefined();
  return {
    rule,
    stage: (instance: number) => rule.step({ type: 'staged', instance }),
    unstage: (instance: number) => rule.step({ type: 'unstaged', instance }),
    end: (instance: number, staged = false) => rule.step({ type: 'ended', instance, staged }),
    remove: (instance: number) => rule.step({ type: 'removed', instance }),
    grant: (wish = rule.shared.wish) => rule.step({ type: 'granted', wish }),
  };
}

describe('an execution', () => {
  test('begins at once where its resources are free, and holds them until it ends', () => {
    const { stage, end } = limiter({ resources: [R(1)] }, { resources: [R(1)] });
    expect(stage(0)).toEqual([0]);
    expect(stage(1)).toEqual([]);
    expect(end(0)).toEqual([1]);
    expect(end(1)).toEqual([]);
  });

  test('takes all that it needs or nothing', () => {
    const { stage, end } = limiter({ resources: [R(1)] }, { resources: [R(1), R(1, 'S')] }, { resources: [R(1, 'S')] });
    expect(stage(0)).toEqual([0]);
    expect(stage(1)).toEqual([]);
    // It is behind the one that waits for R, which holds nothing of S all the same.
    expect(stage(2)).toEqual([]);
    expect(end(0)).toEqual([1]);
    expect(end(1)).toEqual([2]);
  });

  test('of several instances run together while there is enough, and as many as can begin at once', () => {
    const { stage, end } = limiter({ resources: [R(4)] }, { resources: [R(2)] }, { resources: [R(2)] });
    expect(stage(0)).toEqual([0]);
    expect(stage(1)).toEqual([]);
    expect(stage(2)).toEqual([]);
    expect(end(0)).toEqual([1, 2]);
  });

  test('uses what its own device has', () => {
    const { stage } = limiter({ resources: [R(1)] }, { resources: [R(1)], device: 1 }, { resources: [R(1)] });
    expect(stage(0)).toEqual([0]);
    expect(stage(1)).toEqual([1]);
    expect(stage(2)).toEqual([]);
  });
});

describe('the order', () => {
  test('is that of staging where all have run as often', () => {
    const { stage, end } = limiter(...Array.from({ length: 4 }, () => ({ resources: [R(1)] })));
    stage(0);
    for (const instance of [3, 1, 2]) stage(instance);
    expect([end(0), end(3), end(1)].flat()).toEqual([3, 1, 2]);
  });

  test('is who has run least', () => {
    const { stage, end } = limiter({ resources: [R(1)] }, { resources: [R(1)] });
    stage(0);
    stage(1);
    // The first one's next batch waits as well, and is staged before the other has its turn.
    expect(end(0, true)).toEqual([1]);
    expect(end(1, true)).toEqual([0]);
  });

  test('counts executions by priority: 2 has half the chances of 1, and 0 is 1', () => {
    const { stage, end } = limiter({ resources: [R(1)], priority: 0 }, { resources: [R(1)], priority: 2 });
    const runs = [0, 0];
    let running = stage(0)[0] ?? 0;
    stage(1);
    for (let n = 0; n < 300; n++) {
      runs[running] = (runs[running] ?? 0) + 1;
      running = end(running, true)[0] ?? -1;
    }
    expect(runs).toEqual([200, 100]);
  });

  test('lets nothing overtake the first one, whatever it waits for', () => {
    const { stage, end } = limiter(
      { resources: [R(1)] },
      { resources: [R(2)] },
      { resources: [R(1)] },
      { resources: [R(1, 'S')] },
    );
    stage(0);
    expect([stage(1), stage(2), stage(3)]).toEqual([[], [], []]);
    expect(end(0)).toEqual([1]);
    expect(end(1)).toEqual([2, 3]);
  });

  test('is that of executions, not of staging, also for one that is staged later', () => {
    const { stage, end } = limiter({ resources: [R(1)] }, { resources: [R(1)] }, { resources: [R(1)] });
    stage(0);
    end(0);
    stage(1);
    stage(0);
    expect(stage(2)).toEqual([]);
    expect(end(1)).toEqual([2]);
  });
});

describe('an instance', () => {
  test('that is not to run any more lets the next go', () => {
    const { stage, unstage, end } = limiter({ resources: [R(1)] }, { resources: [R(2)] }, { resources: [R(1)] });
    stage(0);
    stage(1);
    stage(2);
    expect(unstage(1)).toEqual([2]);
    expect([end(0), end(2)]).toEqual([[], []]);
    expect(stage(1)).toEqual([1]);
  });

  test('that is removed gives back what it holds, and what there is follows the others', () => {
    const { rule, stage, remove } = limiter({ resources: [R(2)] }, { resources: [R(1)] }, { resources: [R(1)] });
    stage(0);
    stage(1);
    stage(2);
    // Of two, as long as somebody needs two, both could run.
    expect(remove(0)).toEqual([1]);
    expect(rule.step({ type: 'ended', instance: 0, staged: true })).toEqual([]);
    expect(remove(1)).toEqual([2]);
  });

  test('that comes needs no more than is given', () => {
    const rule = createRateLimiter([{ name: 'r', count: 2, device: undefined }]);
    expect(rule.add([{ key: 1, priority: 1, device: 0, resources: [R(2)] }])).toBeUndefined();
    expect(
      rule.add([
        { key: 2, priority: 1, device: 0, resources: [R(1)] },
        { key: 3, priority: 1, device: 0, resources: [R(3)] },
      ]),
    ).toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining('limited to 2'),
    });
    expect(rule.step({ type: 'staged', instance: 2 })).toEqual([]);
    expect(rule.step({ type: 'staged', instance: 1 })).toEqual([1]);
  });
});

const claim = ({ rule }: ReturnType<typeof limiter>) => ({
  held: Object.fromEntries(rule.shared.held),
  wanted: Object.fromEntries(rule.shared.wanted),
});

describe('global resources', () => {
  test('are asked for once those of the device are free, and held until the end', () => {
    const one = limiter({ resources: [R(1), G(2)] });
    expect(one.stage(0)).toEqual([]);
    expect(claim(one)).toEqual({ held: {}, wanted: { G: 2 } });
    expect(one.grant()).toEqual([0]);
    expect(claim(one)).toEqual({ held: { G: 2 }, wanted: {} });
    expect(one.end(0)).toEqual([]);
    expect(claim(one)).toEqual({ held: {}, wanted: {} });
  });

  test('are not asked for while those of the device are not free: nothing is held while it waits', () => {
    const two = limiter({ resources: [R(1)] }, { resources: [R(1), G(1)] });
    two.stage(0);
    two.stage(1);
    expect(claim(two)).toEqual({ held: {}, wanted: {} });
    expect(two.end(0)).toEqual([]);
    expect(claim(two)).toEqual({ held: {}, wanted: { G: 1 } });
  });

  test('who asks stays the first: nothing of its device is given away meanwhile', () => {
    const two = limiter({ resources: [R(1), G(1)], priority: 9 }, { resources: [R(1)] });
    two.stage(0);
    expect(two.stage(1)).toEqual([]);
    expect(two.grant()).toEqual([0]);
    expect(two.end(0)).toEqual([1]);
  });

  test('granted to a wish that is over are not held', () => {
    const two = limiter({ resources: [G(1)] }, { resources: [G(1)] });
    two.stage(0);
    const old = two.rule.shared.wish;
    expect(two.unstage(0)).toEqual([]);
    expect(two.grant(old)).toEqual([]);
    two.stage(1);
    expect(two.rule.shared.wish).not.toBe(old);
    expect(two.grant(old)).toEqual([]);
    expect(claim(two)).toEqual({ held: {}, wanted: { G: 1 } });
    expect(two.grant()).toEqual([1]);
  });

  test('granted while the device has less than before are given back and asked for again', () => {
    const three = limiter({ resources: [R(2)] }, { resources: [R(1)] }, { resources: [R(1), G(1)] });
    three.stage(1);
    three.stage(2);
    expect(claim(three).wanted).toEqual({ G: 1 });
    three.remove(0);
    expect(three.grant()).toEqual([]);
    expect(claim(three)).toEqual({ held: {}, wanted: {} });
    three.end(1);
    expect(claim(three).wanted).toEqual({ G: 1 });
    expect(three.grant()).toEqual([2]);
  });

  test('of a removed instance are given back, and how much there is follows', () => {
    const two = limiter({ resources: [G(3)] }, { resources: [G(1)] });
    expect(Object.fromEntries(two.rule.shared.limits)).toEqual({ G: 3 });
    two.stage(0);
    two.grant();
    two.remove(0);
    expect(claim(two)).toEqual({ held: {}, wanted: {} });
    expect(Object.fromEntries(two.rule.shared.limits)).toEqual({ G: 1 });
  });
});

const NAMES = ['A', 'B'] as const;
const instances = fc.array(
  fc.record({
    priority: fc.integer({ min: 0, max: 3 }),
    device: fc.integer({ min: 0, max: 1 }),
    A: fc.integer({ min: 0, max: 3 }),
    B: fc.integer({ min: 0, max: 3 }),
    G: fc.integer({ min: 0, max: 2 }),
  }),
  { minLength: 1, maxLength: 6 },
);
const actions = fc.array(
  fc.record({ do: fc.constantFrom('stage', 'end', 'again', 'unstage', 'grant'), pick: fc.nat(5) }),
  {
    maxLength: 150,
  },
);

test('property: never more is out than there is, and every batch that stays staged is run', () => {
  fc.assert(
    fc.property(instances, actions, (given, script) => {
      const rule = createRateLimiter([]);
      const of = given.map(
        ({ priority, device, A, B, G: g }, key): LimitedInstance => ({
          key,
          priority,
          device,
          resources: [...(A > 0 ? [R(A, 'A')] : []), ...(B > 0 ? [R(B, 'B')] : []), ...(g > 0 ? [G(g)] : [])],
        }),
      );
      expect(rule.add(of)).toBeUndefined();
      const running = new Set<number>();
      const waiting = new Set<number>();
      const needs = (key: number, name: string) =>
        of[key]?.resources.find((resource) => resource.name === name)?.count ?? 0;
      const out = (name: string, device?: number) =>
        [...running]
          .filter((key) => device === undefined || of[key]?.device === device)
          .reduce((sum, key) => sum + needs(key, name), 0);
      const most = (name: string, device: number) =>
        Math.max(0, ...of.filter((one) => one.device === device).map(({ key }) => needs(key, name)));
      const took = (keys: readonly number[]) => {
        for (const key of keys) {
          expect(waiting.delete(key)).toBe(true);
          running.add(key);
        }
        for (const device of [0, 1])
          for (const name of NAMES) expect(out(name, device)).toBeLessThanOrEqual(most(name, device));
        expect(rule.shared.held.get('G') ?? 0).toBe(out('G'));
      };
      const act = (what: string, key: number) => {
        if (what === 'stage' && !running.has(key) && !waiting.has(key)) {
          waiting.add(key);
          took(rule.step({ type: 'staged', instance: key }));
        } else if ((what === 'end' || what === 'again') && running.delete(key)) {
          if (what === 'again') waiting.add(key);
          took(rule.step({ type: 'ended', instance: key, staged: what === 'again' }));
        } else if (what === 'unstage' && waiting.delete(key)) took(rule.step({ type: 'unstaged', instance: key }));
        else if (what === 'grant') took(rule.step({ type: 'granted', wish: rule.shared.wish }));
      };
      for (const { do: what, pick } of script) act(what, pick % of.length);
      for (let round = 0; round < 3 * of.length && waiting.size + running.size > 0; round++) {
        act('grant', 0);
        for (const key of [...running]) act('end', key);
      }
      expect([waiting.size, running.size]).toEqual([0, 0]);
    }),
    { numRuns: 500 },
  );
});

test('property: nothing starves: of instances that always have a next batch, each runs by its share', () => {
  fc.assert(
    fc.property(instances, (given) => {
      const rule = createRateLimiter([]);
      const of = given.map(({ priority, A, B }, key) => ({
        key,
        priority,
        device: 0,
        resources: [R(A + 1, 'A'), R(B, 'B')],
      }));
      rule.add(of);
      const runs = of.map(() => 0);
      const running: number[] = [];
      const took = (keys: readonly number[]) => running.push(...keys);
      for (const { key } of of) took(rule.step({ type: 'staged', instance: key }));
      for (let n = 0; n < 600; n++) {
        const key = running.shift() ?? -1;
        runs[key] = (runs[key] ?? 0) + 1;
        took(rule.step({ type: 'ended', instance: key, staged: true }));
      }
      // What has run by its share is level with the others but for what is running.
      const turns = of.map(({ key, priority }) => (runs[key] ?? 0) * Math.max(1, priority));
      expect(Math.max(...turns) - Math.min(...turns)).toBeLessThanOrEqual(
        2 * Math.max(1, ...of.map(({ priority }) => priority)),
      );
    }),
  );
});
