import { monitorEventLoopDelay } from 'node:perf_hooks';
import { addSampledMetric, type Registry } from '@nereid/runtime';

/** Between two looks, which the system's timers make late by a fraction of a millisecond. */
const RESOLUTION_MS = 10;
const QUANTILES = [0.5, 0.99, 1];
const NS_IN_S = 1e9;

/** Exports how late this process came to what was due, since the scrape before. Watched until `close`. */
export function addEventLoopDelay(registry: Registry): { readonly close: () => void } {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  addSampledMetric(registry, {
    name: 'nereid_event_loop_delay_seconds',
    type: 'gauge',
    help: 'How late the event loop came to what was due, since the scrape before',
    labelNames: ['quantile'],
    samples() {
      const samples = QUANTILES.map((quantile) => ({
        labels: { quantile: String(quantile) },
        value: delays.count === 0 ? 0 : lateS(delays.percentile(quantile * 100)),
      }));
      delays.reset();
      return samples;
    },
  });
  return { close: () => void delays.disable() };
}

/** What is measured is from look to look. */
function lateS(betweenNs: number): number {
  return Math.max(0, betweenNs / NS_IN_S - RESOLUTION_MS / 1000);
}
