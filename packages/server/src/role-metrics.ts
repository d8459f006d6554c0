import type { Coordinator } from '@nereid/coordinator';
import type { Gateway } from '@nereid/gateway';
import { addSampledMetric, type Registry } from '@nereid/runtime';
import type { JournalWriter } from '@nereid/transport';
import type { Worker } from '@nereid/worker';
import type { DoorState } from './door-state.ts';
import type { OpenedJobs } from './open-jobs.ts';

/** What a role tells of itself, read at each scrape. */
export interface RoleFigures {
  readonly role: 'gateway' | 'coordinator' | 'worker';
  /** By kind; all zero when nothing is going on. */
  readonly held: () => Readonly<Record<string, number>>;
  /** Messages without effect so far: from one who was replaced, or after the outcome. */
  readonly refused: () => number;
}

/** Exports the figures of the roles of one process, as docs/running.md lists them. */
export function addRoleMetrics(registry: Registry, roles: readonly RoleFigures[]): void {
  addSampledMetric(registry, {
    name: 'nereid_held',
    type: 'gauge',
    help: 'What a role holds now, by kind; all 0 when nothing is going on',
    labelNames: ['role', 'kind'],
    samples: () =>
      roles.flatMap(({ role, held }) =>
        Object.entries(held()).map(([kind, value]) => ({ labels: { role, kind }, value })),
      ),
  });
  addSampledMetric(registry, {
    name: 'nereid_refused_messages_total',
    type: 'counter',
    help: 'Messages without effect: from one who was replaced, or after the outcome',
    labelNames: ['role'],
    samples: () => roles.map(({ role, refused }) => ({ labels: { role }, value: refused() })),
  });
}

/** Exports what became of shadow copies of requests to aliases. */
export function addShadowMetrics(registry: Registry, { shadows }: Pick<Gateway, 'shadows'>): void {
  addSampledMetric(registry, {
    name: 'nereid_shadow_total',
    type: 'counter',
    help: 'Shadow copies of requests to an alias, by what became of them',
    labelNames: ['alias', 'result'],
    samples: () =>
      [...shadows.aliases()].flatMap(([alias, counts]) =>
        Object.entries(counts).map(([result, value]) => ({ labels: { alias, result }, value })),
      ),
  });
}

/** Exports what models take of a worker's memory. */
export function addMemoryMetrics(registry: Registry, worker: Pick<Worker, 'memory'>): void {
  const counted = [
    ['nereid_model_loads_total', 'Loads of models that this worker began', 'loads'],
    [
      'nereid_model_evictions_total',
      'Models that went for others, since the memory budget had no room for both',
      'evictions',
    ],
    ['nereid_model_load_refusals_total', 'Loads that cannot fit into the memory budget', 'refusals'],
  ] as const;
  for (const [name, help, key] of counted) {
    const samples = () => [{ labels: {}, value: worker.memory.counts[key] }];
    addSampledMetric(registry, { name, type: 'counter', help, labelNames: [], samples });
  }
  addSampledMetric(registry, {
    name: 'nereid_model_memory_bytes',
    type: 'gauge',
    help: 'Memory of models by device: used, the most that was used at a time, and the budget where there is one',
    labelNames: ['device', 'kind'],
    samples: () =>
      worker.memory.account.flatMap(({ device, used, budget }) => [
        { labels: { device, kind: 'used' }, value: used },
        { labels: { device, kind: 'peak' }, value: worker.memory.peaks[device] ?? 0 },
        ...(budget === undefined ? [] : [{ labels: { device, kind: 'budget' }, value: budget }]),
      ]),
  });
}

/** Exports what a worker could not record. */
export function addJournalMetrics(registry: Registry, journal: Pick<JournalWriter, 'dropped'> | undefined): void {
  if (journal === undefined) return;
  addSampledMetric(registry, {
    name: 'nereid_journal_dropped_steps_total',
    type: 'counter',
    help: 'Steps that were not recorded, since Redis was away, full or slow',
    labelNames: [],
    samples: () => [{ labels: {}, value: journal.dropped }],
  });
}

export function gatewayFigures(
  gateway: Gateway,
  { queues }: OpenedJobs,
  { bytesInFlight, sharedMemory }: DoorState,
): RoleFigures {
  return {
    role: 'gateway',
    held: () => ({
      requests: gateway.waiting,
      job_waits: queues?.waiters ?? 0,
      bytes: bytesInFlight.held,
      shared_memory_places: sharedMemory.held,
    }),
    refused: () => gateway.refusedMessages,
  };
}

export function coordinatorFigures(coordinator: Coordinator): RoleFigures {
  return {
    role: 'coordinator',
    held: () => {
      const { queued, running } = coordinator.counts;
      return { queued, running, jobs: coordinator.heldJobs };
    },
    refused: () => coordinator.refusedMessages,
  };
}

export function workerFigures(worker: Worker): RoleFigures {
  return {
    role: 'worker',
    held: () => {
      const { batches, requests } = worker.counters();
      return { batches, requests, kept_bytes: worker.keptBytes };
    },
    refused: () => worker.refusedMessages,
  };
}
