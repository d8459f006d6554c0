/** The suite that every kind of shared resources passes. */
import type { ProcessId } from '@nereid/protocol';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ResourceMember, SharedResources } from './shared-resources.ts';

/** Longer than any machine takes. */
const TURN_LIMIT_MS = 10_000;

/** Resources of their own for a test. */
export interface ResourcesUnderTest {
  /** What the worker of that id uses. */
  of(id: ProcessId): Promise<SharedResources>;
  /** Resolves once its wish has a place in the order. */
  waits(id: ProcessId): Promise<unknown>;
}

/** A worker as the suite plays it: it holds what it is granted until told otherwise. */
export function testMember(resources: SharedResources, id: ProcessId, limits: Readonly<Record<string, number>>) {
  let held: Readonly<Record<string, number>> = {};
  let wanted: Readonly<Record<string, number>> = {};
  let wish = 0;
  const member: ResourceMember = resources.open({
    id: () => id,
    granted(number) {
      if (number !== wish || Object.keys(wanted).length === 0) return;
      held = { ...wanted };
      wanted = {};
      tell();
    },
  });
  const counts = (of: Readonly<Record<string, number>>) => new Map(Object.entries(of));
  const tell = () => member.tell({ limits: counts(limits), held: counts(held), wanted: counts(wanted), wish });
  tell();
  return {
    member,
    get held() {
      return held;
    },
    want(more: Readonly<Record<string, number>>) {
      wanted = more;
      wish++;
      tell();
    },
    withdraw() {
      wanted = {};
      tell();
    },
    release() {
      held = {};
      tell();
    },
    close: () => member.close(),
  };
}

export function sharedResourcesContract(name: string, fresh: () => ResourcesUnderTest): void {
  let resources: ResourcesUnderTest;
  beforeEach(() => {
    resources = fresh();
  });

  const workers = async (...limits: readonly Readonly<Record<string, number>>[]) => {
    const all: ReturnType<typeof testMember>[] = [];
    for (const [index, of] of limits.entries()) {
      const id = `wk-${index}`;
      all.push(testMember(await resources.of(id), id, of));
    }
    return all as [ReturnType<typeof testMember>, ReturnType<typeof testMember>, ReturnType<typeof testMember>];
  };
  const has = (worker: ReturnType<typeof testMember>, held: Readonly<Record<string, number>>) =>
    expect.poll(() => worker.held).toEqual(held);
  const close = async (...all: readonly ReturnType<typeof testMember>[]) => {
    for (const worker of all) await worker.close();
  };

  describe(`shared resources: ${name}`, () => {
    test('what is there is granted, and what is not once it is given back', async () => {
      const [a, b] = await workers({ G: 1 }, { G: 1 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1 });
      await resources.waits('wk-1');
      expect(b.held).toEqual({});
      a.release();
      await has(b, { G: 1 });
      expect(a.held).toEqual({});
      await close(a, b);
    });

    test('there is as much as the worker that knows of most says', async () => {
      const [a, b] = await workers({ G: 1 }, { G: 2 });
      b.want({ G: 2 });
      await has(b, { G: 2 });
      b.release();
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1 });
      await has(b, { G: 1 });
      await close(a, b);
    });

    test('all that a wish is for is granted, or nothing', async () => {
      const [a, b, c] = await workers({ G: 1, H: 1 }, { G: 1, H: 1 }, { G: 1, H: 1 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1, H: 1 });
      await resources.waits('wk-1');
      c.want({ H: 1 });
      a.release();
      await has(b, { G: 1, H: 1 });
      expect(c.held).toEqual({});
      b.release();
      await has(c, { H: 1 });
      await close(a, b, c);
    });

    test('first come first served: what waits is not overtaken by who needs less of the same', async () => {
      const [a, b, c] = await workers({ G: 2 }, { G: 2 }, { G: 2 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 2 });
      await resources.waits('wk-1');
      c.want({ G: 1 });
      a.release();
      await has(b, { G: 2 });
      expect(c.held).toEqual({});
      b.release();
      await has(c, { G: 1 });
      await close(a, b, c);
    });

    test('who waits for something else is not held up', async () => {
      const [a, b, c] = await workers({ G: 1 }, { G: 1 }, { H: 1 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1 });
      c.want({ H: 1 });
      await has(c, { H: 1 });
      await close(a, b, c);
    });

    test('a wish that is taken back holds nobody up', async () => {
      const [a, b, c] = await workers({ G: 1 }, { G: 1 }, { G: 1 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1 });
      b.withdraw();
      c.want({ G: 1 });
      a.release();
      await has(c, { G: 1 });
      expect(b.held).toEqual({});
      await close(a, b, c);
    });

    test('what a worker holds is free once it has closed', async () => {
      const [a, b] = await workers({ G: 1 }, { G: 1 });
      a.want({ G: 1 });
      await has(a, { G: 1 });
      b.want({ G: 1 });
      await a.close();
      await has(b, { G: 1 });
      await b.close();
    });

    test('many that want the same get it one after the other, and never two at a time', async () => {
      const all = await workers({ G: 1 }, { G: 1 }, { G: 1 });
      const turns = [0, 0, 0];
      for (const worker of all) worker.want({ G: 1 });
      for (let turn = 0; turn < 12; turn++) {
        const holder = await vi.waitFor(() => {
          const holders = all.flatMap(({ held }, index) => (held.G === undefined ? [] : [index]));
          expect(holders).toHaveLength(1);
          return holders[0] ?? -1;
        }, TURN_LIMIT_MS);
        turns[holder] = (turns[holder] ?? 0) + 1;
        all[holder]?.release();
        all[holder]?.want({ G: 1 });
      }
      expect(turns).toEqual([4, 4, 4]);
      await close(...all);
    });
  });
}
