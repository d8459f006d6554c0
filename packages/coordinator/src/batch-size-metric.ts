import { addSampledHistogram, type HistogramSample, type Labels, type Registry } from '@nereid/runtime';
import type { CloseReason } from '@nereid/scheduler';
import type { CloseCounts } from './close-counts.ts';

export const BATCH_SIZE_METRIC = 'nereid_batch_size';

/** The highest bound of a bucket, which a model's own largest batch lowers; larger batches are in +Inf alone. */
const BUCKET_ROWS_MAX = 65_536;

/** What a model gives whose requests run one by one, and what another may give without settings of ours. */
const ALONE: readonly CloseReason[] = ['single'];
const TOGETHER: readonly CloseReason[] = ['full', 'preferred', 'delay', 'shape', 'free', 'drain'];

/** One model version's histograms. */
export interface BatchSizeSeries {
  readonly closes: CloseCounts;
  /** Powers of two from 1. */
  readonly bounds: readonly number[];
  /** Shown from 0; others from their first batch on. */
  readonly reasons: readonly CloseReason[];
}

/** `rows_max`: of the model's largest batch; `together`: whether its requests may share a batch. */
export function batchSizeSeries(closes: CloseCounts, rows_max: number, together: boolean): BatchSizeSeries {
  const bounds = [1];
  for (let bound = 1; bound < Math.min(rows_max, BUCKET_ROWS_MAX); ) {
    bound *= 2;
    bounds.push(bound);
  }
  return { closes, bounds, reasons: together ? TOGETHER : ALONE };
}

/** Exports histograms of the rows of executed batches, by why they were closed. */
export function addBatchSizeMetric(
  registry: Registry,
  labelNames: readonly string[],
  shown: () => Iterable<{ readonly labels: Labels; readonly series: BatchSizeSeries }>,
): void {
  function* samples(): Generator<HistogramSample> {
    for (const { labels, series } of shown()) {
      for (const reason of new Set([...series.reasons, ...series.closes.keys()])) {
        const sizes = series.closes.get(reason) ?? [];
        yield { labels: { ...labels, reason }, bounds: series.bounds, values: sizes };
      }
    }
  }
  addSampledHistogram(registry, {
    name: BATCH_SIZE_METRIC,
    help: 'Rows of the batches that were executed, by why they were closed',
    labelNames: [...labelNames, 'reason'],
    samples,
  });
}
