import { createRegistry } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { addBatchSizeMetric, type BatchSizeSeries, batchSizeSeries } from './batch-size-metric.ts';
import { type CloseCounts, countClose } from './close-counts.ts';

const LABELS = { model: 'm', version: '1' };

async function exported(series: BatchSizeSeries): Promise<string[]> {
  const registry = createRegistry();
  addBatchSizeMetric(registry, ['model', 'version'], () => [{ labels: LABELS, series }]);
  return (await registry.metrics()).split('\n').filter((line) => line !== '');
}

test.each<[string, number, number[]]>([
  ['of a model without batches', 1, [1]],
  ['a power of two', 8, [1, 2, 4, 8]],
  ['between two', 9, [1, 2, 4, 8, 16]],
])('bounds cover the largest batch: %s', (_name, rows, bounds) => {
  expect(batchSizeSeries(new Map(), rows, true).bounds).toEqual(bounds);
});

test('bounds end at 65,536, whatever a config allows', () => {
  const { bounds } = batchSizeSeries(new Map(), 2_147_483_647, true);
  expect([bounds.length, bounds.at(-1)]).toEqual([17, 65_536]);
});

test('buckets add up from below, with sum and count behind them', async () => {
  const closes: CloseCounts = new Map();
  countClose(closes, 'single', 3, 2);
  countClose(closes, 'single', 9);
  const series = { closes, bounds: [1, 2, 4], reasons: ['single'] } as const;
  expect(await exported(series)).toEqual([
    '# HELP nereid_batch_size Rows of the batches that were executed, by why they were closed',
    '# TYPE nereid_batch_size histogram',
    'nereid_batch_size_bucket{le="1",model="m",version="1",reason="single"} 0',
    'nereid_batch_size_bucket{le="2",model="m",version="1",reason="single"} 0',
    'nereid_batch_size_bucket{le="4",model="m",version="1",reason="single"} 2',
    'nereid_batch_size_bucket{le="+Inf",model="m",version="1",reason="single"} 3',
    'nereid_batch_size_sum{model="m",version="1",reason="single"} 15',
    'nereid_batch_size_count{model="m",version="1",reason="single"} 3',
  ]);
});

test('reasons that a model gives are there from 0, others from their first batch on', async () => {
  const closes: CloseCounts = new Map();
  const series = batchSizeSeries(closes, 1, true);
  const counts = async () =>
    (await exported(series)).flatMap((line) => /_count\{.*reason="(\w+)"\} (\d+)/.exec(line)?.slice(1).join(' ') ?? []);
  expect(await counts()).toEqual(['full 0', 'preferred 0', 'delay 0', 'shape 0', 'free 0', 'drain 0']);
  countClose(closes, 'strategy', 1);
  countClose(closes, 'full', 1);
  expect(await counts()).toEqual(['full 1', 'preferred 0', 'delay 0', 'shape 0', 'free 0', 'drain 0', 'strategy 1']);
});
