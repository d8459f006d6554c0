import { expect, test } from 'vitest';
import { addSampledMetric, createRegistry } from './metrics.ts';

test('samples are read at each scrape; a series that is gone is not printed', async () => {
  const registry = createRegistry();
  const counts = new Map([
    ['a', 1],
    ['b', 2],
  ]);
  addSampledMetric(registry, {
    name: 'nv_inference_count',
    help: 'Number of inferences performed',
    type: 'counter',
    labelNames: ['model'],
    samples: () => [...counts].map(([model, value]) => ({ labels: { model }, value })),
  });
  addSampledMetric(registry, {
    name: 'pending',
    help: 'Pending',
    type: 'gauge',
    labelNames: [],
    samples: () => [{ labels: {}, value: counts.size }],
  });
  expect(await registry.metrics()).toContain('nv_inference_count{model="b"} 2\n');
  counts.delete('b');
  counts.set('a', 7);
  const text = await registry.metrics();
  expect(text).toContain('# TYPE nv_inference_count counter\nnv_inference_count{model="a"} 7\n');
  expect(text).not.toContain('model="b"');
  expect(text).toContain('\npending 1\n');
});
