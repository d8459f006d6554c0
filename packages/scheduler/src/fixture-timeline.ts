import type { DynamicBatcherOptions } from './dynamic-batcher.ts';
import { queuedRequest } from './fixture-request.ts';
import { NO_POLICIES } from './queue-policy.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';

/** When, how many rows, of which shape, and what else it asks for. */
export type Arrival = readonly [ms: number, rows: number, shape?: string, wishes?: Partial<QueuedRequest>];
/** When, the rows of each request of the batch, and why it was closed. */
export type Sent = readonly [ms: number, rows: readonly number[], reason?: string];

/** What happens, and what a batcher makes of it. */
export interface Timeline {
  readonly rule: string;
  readonly options: Partial<DynamicBatcherOptions>;
  readonly instances?: number;
  /** How long the model takes. */
  readonly run_ms?: number;
  readonly arrivals: readonly Arrival[];
  /** Ids (r0, r1, … by arrival) that are cancelled at a time. */
  readonly cancels?: readonly (readonly [ms: number, id: string])[];
  readonly sent: readonly Sent[];
  /** Ids of those that are refused. */
  readonly rejected?: readonly string[];
}

export const DEFAULTS: DynamicBatcherOptions = {
  rows_max: 8,
  preferred: [],
  delay_us: 0,
  places_ahead: 0,
  queue_max: 65_536,
  policies: NO_POLICIES,
  eager: false,
};

/** `count` arrivals of one row at that time. */
export const many = (ms: number, count: number): Arrival[] => Array.from({ length: count }, () => [ms, 1] as const);

export interface TimelineResult {
  readonly sent: Sent[];
  readonly rejected: [id: string, ms: number][];
  /** Ids of the requests of each batch. */
  readonly batches: string[][];
}

/** Runs the scheduler in virtual time against instances that take `run_ms` per batch. */
export function runTimeline(scheduler: Scheduler, given: Omit<Timeline, 'rule' | 'sent' | 'rejected'>): TimelineResult {
  const agenda: { us: number; event: ScheduleEvent }[] = [];
  const sent: Sent[] = [];
  const batches: string[][] = [];
  const rejected: [string, number][] = [];
  let wake: { us: number; event: ScheduleEvent } | undefined;
  const plan = (us: number, event: ScheduleEvent) => {
    const entry = { us, event };
    agenda.push(entry);
    return entry;
  };
  for (let index = 0; index < (given.instances ?? 1); index++) {
    plan(0, { type: 'instance-free', instance: `wk/${index}` });
  }
  for (const [index, [ms, rows, shape, wishes]] of given.arrivals.entries()) {
    const request = queuedRequest({ id: `r${index}`, rows, shapeKey: shape ?? '', arrivedUs: ms * 1000, ...wishes });
    plan(ms * 1000, { type: 'arrived', request });
  }
  for (const [ms, id] of given.cancels ?? []) plan(ms * 1000, { type: 'cancelled', id });
  const apply = (decision: Decision, nowUs: number) => {
    switch (decision.type) {
      case 'dispatch':
        sent.push([nowUs / 1000, decision.batch.map((request) => request.rows), decision.reason]);
        batches.push(decision.batch.map((request) => request.id));
        plan(nowUs + (given.run_ms ?? 0) * 1000, { type: 'instance-free', instance: decision.instance });
        break;
      case 'reject':
        rejected.push([decision.request.id, nowUs / 1000]);
        break;
      case 'wake':
        if (wake !== undefined) agenda.splice(agenda.indexOf(wake), 1);
        wake = plan(decision.atUs, { type: 'time' });
        break;
    }
  };
  for (;;) {
    // The earliest, and among equals the one planned first.
    const next = agenda.reduce<(typeof agenda)[number] | undefined>(
      (best, entry) => (best === undefined || entry.us < best.us ? entry : best),
      undefined,
    );
    if (next === undefined) return { sent, rejected, batches };
    agenda.splice(agenda.indexOf(next), 1);
    if (next === wake) wake = undefined;
    for (const decision of scheduler.step(next.event, next.us)) apply(decision, next.us);
  }
}
