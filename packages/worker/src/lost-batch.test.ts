import type { ErrorInfo } from '@nereid/protocol';
import { beforeEach, describe, expect, it, test } from 'vitest';
import type { BatchSettlement, InstanceBatch } from './instance-batch.ts';
import { retriesOf } from './lost-batch.ts';
import {
  CARRIERS,
  eachWithHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  request,
  responseOf,
} from './worker-harness.ts';

const row = (value: number) => request([int32('X', [1, 1], [value])]);
const DIED: ErrorInfo = { code: 'INTERNAL', message: 'it died' };
const LATE: ErrorInfo = { code: 'INTERNAL', message: 'it was late', reason: 'execution_timeout' };
const POISONED: ErrorInfo = {
  code: 'POISONED',
  message: 'the request is refused: it died, a second time with this request in it',
};
const CANCELLED: ErrorInfo = { code: 'CANCELLED', message: 'Request cancelled' };

describe('the requests of a lost batch', () => {
  const settled: BatchSettlement[] = [];
  const batchOf = (requests: number, more: Partial<InstanceBatch> = {}): InstanceBatch => ({
    batch: 1,
    requests: Array.from({ length: requests }, (_, i) => row(i)),
    receivedNs: 0,
    cancelled: undefined,
    settle: (settlement) => settled.push(settlement),
    ...more,
  });
  beforeEach(() => {
    settled.length = 0;
  });

  test.each<[string, number, Partial<InstanceBatch>, ErrorInfo, readonly (ErrorInfo | 'again')[]]>([
    ['each run again by itself', 3, {}, DIED, ['again', 'again', 'again']],
    ['also one that was by itself from the start', 1, {}, DIED, ['again']],
    ['not one that was by itself after a loss', 1, { isRetry: true }, DIED, [POISONED]],
    ['not one that is cancelled', 2, { cancelled: new Set([1]) }, DIED, ['again', CANCELLED]],
    ['not one that has begun to answer', 2, { begun: new Set([0]) }, DIED, [DIED, 'again']],
    ['not one that has begun to answer, the second time', 1, { isRetry: true, begun: new Set([0]) }, DIED, [DIED]],
    ['each run again by itself where they were late', 2, {}, LATE, ['again', 'again']],
    ['not one that was late by itself', 1, {}, LATE, [LATE]],
    ['not one that was late by itself after a loss', 1, { isRetry: true }, LATE, [LATE]],
  ])('%s', (_rule, requests, more, why, expected) => {
    const lost = batchOf(requests, more);
    const retries = retriesOf(lost, why);
    expect(retries.map(({ requests: [only], isRetry }) => [only, isRetry])).toEqual(
      lost.requests.filter((_, i) => expected[i] === 'again').map((only) => [only, true]),
    );
    const timing = { waitNs: 0, inputNs: 1, inferNs: 2, outputNs: 3 };
    for (const retry of retries) {
      expect(settled).toEqual([]);
      retry.settle({ executed: true, timing, outcomes: [{ ok: true, parameters: {}, outputs: [] }] });
    }
    expect(settled).toHaveLength(1);
    expect(settled[0]?.outcomes.map((outcome) => (outcome.ok ? 'again' : outcome.error))).toEqual(expected);
    const died = expected.flatMap((end, i) => (end === 'again' || end === CANCELLED ? [] : [i]));
    expect([...(settled[0]?.died ?? [])]).toEqual(died);
    expect(settled[0]?.timing).toMatchObject({
      inputNs: retries.length,
      inferNs: 2 * retries.length,
      outputNs: 3 * retries.length,
    });
  });

  test('have their chunks and response times put together', () => {
    const chunks: number[] = [];
    const [first, second] = retriesOf(
      batchOf(3, { cancelled: new Set([0]), chunk: ({ position }) => chunks.push(position) }),
      DIED,
    );
    const end = { ok: true, parameters: {}, outputs: [] } as const;
    const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
    for (const retry of [first, second]) {
      retry?.chunk?.({ position: 0, outcome: end, last: true });
      const responses = {
        answers: [{ count: 1, inferNs: 5, outputNs: 1 }],
        others: [{ index: 1, how: 'empty', ns: 2 }],
      } as const;
      retry?.settle({ executed: true, timing, outcomes: [end], responses });
    }
    expect(chunks).toEqual([1, 2]);
    expect(settled[0]?.responses).toEqual({
      answers: [{ count: 2, inferNs: 10, outputNs: 2 }],
      others: [
        { index: 1, how: 'empty', ns: 2 },
        { index: 1, how: 'empty', ns: 2 },
      ],
    });
  });
});

let harness: Harness;
eachWithHarness((made) => {
  harness = made;
});

const BATCHING = 'max_batch_size: 8';
const started = (carrier: 'thread' | 'process') => harness[carrier === 'thread' ? 'threads' : 'processes'].length;
const ready = (yes: boolean) => harness.described('m', ({ versions }) => versions[0]?.instances[0]?.ready === yes);
/** 2 and 5 end the thread or process, the others are answered. */
const KILLERS = `export function execute(requests) {
  const values = requests.map(({ inputs }) => inputs.get('X').data[0]);
  if (values.includes(2) || values.includes(5)) process.exit(7);
  return requests.map(({ inputs }) => ({ outputs: { Y: inputs.get('X') } }));
}`;
const endings = (outcomes: readonly Parameters<typeof responseOf>[0][]) =>
  outcomes.map((outcome) =>
    outcome?.ok === true ? int32Values(responseOf(outcome).outputs[0])[0] : errorOf(outcome).code,
  );

describe.each(CARRIERS)('a batch whose %s died', (carrier, config) => {
  it('answers the innocent, refuses the guilty', async () => {
    await harness.javascript('m', KILLERS, `${config} ${BATCHING}`);
    await harness.load('m');
    const batch = harness.start('m', [row(1), row(2), row(3), row(4)]);
    const behind = harness.start('m', [row(6), row(7)]);
    const { outcomes, done } = await batch.over;
    expect(endings(outcomes)).toEqual([1, 'POISONED', 3, 4]);
    expect(executedOf(done)).toEqual([true, 'ok', 'error', 'ok', 'ok']);
    // Twice: with all, and with its own doing.
    expect(started(carrier)).toBe(3);
    expect(endings((await behind.over).outcomes)).toEqual([6, 7]);
  });

  it('leaves nobody waiting for long where several are guilty', async () => {
    await harness.javascript('m', KILLERS, `${config} ${BATCHING}`);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [row(2), row(5), row(2), row(8)]);
    expect(endings(outcomes)).toEqual(['POISONED', 'POISONED', 'POISONED', 8]);
    expect(started(carrier)).toBe(5);
  });

  it('does not run again what is cancelled meanwhile', async () => {
    await harness.javascript('m', KILLERS, `${config} ${BATCHING}`);
    await harness.load('m');
    const down = ready(false);
    const batch = harness.start('m', [row(1), row(2), row(3)]);
    await down;
    await harness.cancel('m', batch.ids.slice(1, 3));
    const { outcomes, done } = await batch.over;
    expect(endings(outcomes)).toEqual([1, 'CANCELLED', 'CANCELLED']);
    expect(executedOf(done)).toEqual([true, 'ok', 'cancelled', 'cancelled']);
    expect(started(carrier)).toBe(2);
  });
});
