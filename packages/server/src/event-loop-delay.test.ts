import { createRegistry } from '@nereid/runtime';
import { expect, test } from 'vitest';
import { addEventLoopDelay } from './event-loop-delay.ts';

const BLOCKED_MS = 80;

test('what keeps the event loop from its work is told once, and no more at the next scrape', async () => {
  const registry = createRegistry();
  const delay = addEventLoopDelay(registry);
  const longestS = async () => {
    const { values } = (await registry.getMetricsAsJSON()).find(
      ({ name }) => name === 'nereid_event_loop_delay_seconds',
    ) ?? {
      values: [],
    };
    return values.find(({ labels }) => labels.quantile === '1')?.value ?? Number.NaN;
  };
  const turns = async (count: number) => {
    for (let at = 0; at < count; at += 1) await new Promise((resolve) => setTimeout(resolve, 10));
  };
  await turns(2);
  const until = performance.now() + BLOCKED_MS;
  while (performance.now() < until);
  await turns(2);
  expect(await longestS()).toBeGreaterThan((BLOCKED_MS - 20) / 1000);
  delay.close();
  expect(await longestS()).toBe(0);
});
