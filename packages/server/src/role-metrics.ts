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
