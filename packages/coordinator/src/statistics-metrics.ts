import { addSampledMetric, type Labels, type Registry, type Sample } from '@nereid/runtime';
import { addBatchSizeMetric, BATCH_SIZE_METRIC, type BatchSizeSeries } from './batch-size-metric.ts';
import { FAILURE_REASONS, type ModelStatistics } from './model-statistics.ts';
import type { SequenceRow } from './sequence-list.ts';
import { addSequenceMetric, SEQUENCE_METRIC } from './sequence-metric.ts';

/** One model version's row of series. */
export interface StatisticsSeries {
  readonly model: string;
  readonly version: string;
  /** The config's metric_tags. */
  readonly tags: Readonly<Record<string, string>>;
  readonly statistics: ModelStatistics;
  readonly batchSizes: BatchSizeSeries;
  /** Requests accepted and not yet executing. */
  readonly pending: () => number;
  /** Its config lets callers keep its answers. */
  readonly cached: boolean;
  /** Of a model that keeps sequences. */
  readonly sequences: (() => Iterable<SequenceRow>) | undefined;
}

export interface StatisticsMetrics {
  /** Shows the series, all at once and from 0. Returns how to take them away. */
  add(series: StatisticsSeries): () => void;
  /** Takes all metrics off the registry. */
  close(): void;
}

interface MetricRow {
  readonly name: string;
  readonly type: 'counter' | 'gauge';
  readonly help: string;
  readonly value: (series: StatisticsSeries) => number;
}

/** Names and texts as Triton exports them (metrics.cc). */
const METRICS: readonly MetricRow[] = [
  {
    name: 'nv_inference_request_success',
    type: 'counter',
    help: 'Number of successful inference requests, all batch sizes',
    value: ({ statistics }) => statistics.success,
  },
  {
    name: 'nv_inference_count',
    type: 'counter',
    help: 'Number of inferences performed (does not include cached requests)',
    value: ({ statistics }) => statistics.inferences,
  },
  {
    name: 'nv_inference_exec_count',
    type: 'counter',
    help: 'Number of model executions performed (does not include cached requests)',
    value: ({ statistics }) => statistics.executions,
  },
  {
    name: 'nv_inference_request_duration_us',
    type: 'counter',
    help: 'Cumulative inference request duration in microseconds (includes cached requests)',
    value: ({ statistics }) => statistics.requestUs,
  },
  {
    name: 'nv_inference_queue_duration_us',
    type: 'counter',
    help: 'Cumulative inference queuing duration in microseconds (includes cached requests)',
    value: ({ statistics }) => statistics.queueUs,
  },
  {
    name: 'nv_inference_compute_input_duration_us',
    type: 'counter',
    help: 'Cumulative compute input duration in microseconds (does not include cached requests)',
    value: ({ statistics }) => statistics.inputUs,
  },
  {
    name: 'nv_inference_compute_infer_duration_us',
    type: 'counter',
    help: 'Cumulative compute inference duration in microseconds (does not include cached requests)',
    value: ({ statistics }) => statistics.inferUs,
  },
  {
    name: 'nv_inference_compute_output_duration_us',
    type: 'counter',
    help: 'Cumulative inference compute output duration in microseconds (does not include cached requests)',
    value: ({ statistics }) => statistics.outputUs,
  },
  {
    name: 'nv_inference_pending_request_count',
    type: 'gauge',
    help: 'Instantaneous number of pending requests awaiting execution per-model.',
    value: ({ pending }) => pending(),
  },
];

/** Only of models whose answers are kept (metric_model_reporter.cc). */
const CACHE_METRICS: readonly MetricRow[] = [
  {
    name: 'nv_cache_num_hits_per_model',
    type: 'counter',
    help: 'Number of cache hits per model',
    value: ({ statistics }) => statistics.cacheHits,
  },
  {
    name: 'nv_cache_num_misses_per_model',
    type: 'counter',
    help: 'Number of cache misses per model',
    value: ({ statistics }) => statistics.cacheMisses,
  },
  {
    name: 'nv_cache_hit_duration_per_model',
    type: 'counter',
    help: 'Total cache hit duration per model, in microseconds',
    value: ({ statistics }) => statistics.hitUs,
  },
  {
    name: 'nv_cache_miss_duration_per_model',
    type: 'counter',
    help: 'Total cache miss (insert+lookup) duration per model, in microseconds',
    value: ({ statistics }) => statistics.missUs,
  },
];

const FAILURE_METRIC = 'nv_inference_request_failure';
const FAILURE_HELP = 'Number of failed inference requests, all batch sizes';

const OWN_LABELS: readonly string[] = ['model', 'version', 'reason', 'le', 'place'];
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/**
 * Exports the statistics of all models of one coordinator. A metric's label names are fixed when
 * it is registered, so a model with a new tag has the metrics registered anew with that name too. `responseCache`:
 * callers keep answers, as far as is known here.
 */
export function createStatisticsMetrics(registry: Registry, responseCache = false): StatisticsMetrics {
  const shown = new Set<StatisticsSeries>();
  const tagNames = new Set<string>();

  const unregister = () => {
    for (const { name } of [...METRICS, ...CACHE_METRICS]) registry.removeSingleMetric(name);
    registry.removeSingleMetric(FAILURE_METRIC);
    registry.removeSingleMetric(BATCH_SIZE_METRIC);
    registry.removeSingleMetric(SEQUENCE_METRIC);
  };

  function* samples({ value }: MetricRow): Generator<Sample> {
    for (const series of shown) yield { labels: labelsOf(series), value: value(series) };
  }

  /** Gateways may have a cache where this coordinator was not told of one. */
  const showsCache = ({ cached, statistics }: StatisticsSeries) =>
    cached && (responseCache || statistics.cacheHits + statistics.cacheMisses > 0);

  function* cacheSamples({ value }: MetricRow): Generator<Sample> {
    for (const series of shown) if (showsCache(series)) yield { labels: labelsOf(series), value: value(series) };
  }

  function* failureSamples(): Generator<Sample> {
    for (const series of shown) {
      const labels = labelsOf(series);
      for (const reason of FAILURE_REASONS) {
        yield { labels: { ...labels, reason }, value: series.statistics.failure[reason] };
      }
    }
  }

  function* batchSizes() {
    for (const series of shown) yield { labels: labelsOf(series), series: series.batchSizes };
  }

  function* sequences() {
    for (const series of shown) {
      if (series.sequences !== undefined) yield { labels: labelsOf(series), sequences: series.sequences() };
    }
  }

  const register = () => {
    const labelNames = ['model', 'version', ...tagNames];
    for (const row of METRICS) addSampledMetric(registry, { ...row, labelNames, samples: () => samples(row) });
    for (const row of CACHE_METRICS) {
      addSampledMetric(registry, { ...row, labelNames, samples: () => cacheSamples(row) });
    }
    addSampledMetric(registry, {
      name: FAILURE_METRIC,
      type: 'counter',
      help: FAILURE_HELP,
      labelNames: [...labelNames, 'reason'],
      samples: failureSamples,
    });
    addBatchSizeMetric(registry, labelNames, batchSizes);
    addSequenceMetric(registry, labelNames, sequences);
  };

  register();
  return {
    add(series) {
      const fresh = usableTags(series).filter((name) => !tagNames.has(name));
      if (fresh.length > 0) {
        for (const name of fresh) tagNames.add(name);
        unregister();
        register();
      }
      shown.add(series);
      return () => void shown.delete(series);
    },
    close: unregister,
  };
}

function labelsOf(series: StatisticsSeries): Labels {
  const labels: Record<string, string> = { model: series.model, version: series.version };
  for (const name of usableTags(series)) labels[name] = series.tags[name] ?? '';
  return labels;
}

/** A tag that is no Prometheus label name, or would hide one of ours, is left out. */
function usableTags(series: StatisticsSeries): string[] {
  return Object.keys(series.tags).filter((name) => LABEL_NAME.test(name) && !OWN_LABELS.includes(name));
}
