import { Counter, Gauge, type Metric, Registry } from 'prom-client';

export type { Registry } from 'prom-client';

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  readonly labels: Labels;
  readonly value: number;
}

export interface SampledMetric {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge';
  readonly labelNames: readonly string[];
  /** Read at each scrape. Counting itself stays plain arithmetic on the request's path. */
  readonly samples: () => Iterable<Sample>;
}

/** A registry of its own per server, so that several may live in one process. */
export function createRegistry(): Registry {
  return new Registry();
}

/** Adds a metric whose values are kept elsewhere and read when scraped. */
export function addSampledMetric(registry: Registry, metric: SampledMetric): void {
  const configuration = {
    name: metric.name,
    help: metric.help,
    labelNames: [...metric.labelNames],
    registers: [registry],
  };
  if (metric.type === 'counter') {
    new Counter({
      ...configuration,
      collect() {
        this.reset();
        for (const sample of metric.samples()) this.inc({ ...sample.labels }, sample.value);
      },
    });
  } else {
    new Gauge({
      ...configuration,
      collect() {
        this.reset();
        for (const sample of metric.samples()) this.set({ ...sample.labels }, sample.value);
      },
    });
  }
}

/** One series of a histogram: how often each value came. */
export interface HistogramSample {
  readonly labels: Labels;
  /** Upper bounds of its buckets, ascending; +Inf comes by itself. */
  readonly bounds: readonly number[];
  /** Values with their counts, in any order. */
  readonly values: Iterable<readonly [value: number, count: number]>;
}

export interface SampledHistogram {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly samples: () => Iterable<HistogramSample>;
}

/**
 * As `addSampledMetric`, of a histogram. prom-client's own can only be told one value after the other, and has the
 * same bounds in all of its series: the registry needs no more of a metric than its name and `get`.
 */
export function addSampledHistogram(registry: Registry, { name, help, labelNames, samples }: SampledHistogram): void {
  const get = async () => ({ name, help, type: 'histogram', values: [...samples()].flatMap(seriesOf(name)) });
  registry.registerMetric({ name, labelNames, get } as unknown as Metric);
}

function seriesOf(name: string) {
  return ({ labels, bounds, values }: HistogramSample) => {
    const all = [...values];
    const upTo = (bound: number) => all.reduce((sum, [value, count]) => sum + (value <= bound ? count : 0), 0);
    const line = (suffix: string, value: number, more: Labels = {}) => ({
      metricName: `${name}_${suffix}`,
      labels: { ...more, ...labels },
      value,
    });
    const count = upTo(Number.POSITIVE_INFINITY);
    return [
      ...bounds.map((bound) => line('bucket', upTo(bound), { le: String(bound) })),
      line('bucket', count, { le: '+Inf' }),
      line(
        'sum',
        all.reduce((sum, [value, times]) => sum + value * times, 0),
      ),
      line('count', count),
    ];
  };
}
