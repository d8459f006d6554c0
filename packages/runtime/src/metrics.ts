import { Counter, Gauge, Registry } from 'prom-client';

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
