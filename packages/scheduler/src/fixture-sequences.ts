import { parseModelConfig } from '@nereid/config';
import { queuedRequest } from './fixture-request.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';
import { createScheduler } from './schedulers.ts';

/**
 * At so many ms: a step by its session, with `^` for a START and `$` for an END; or another event. Ids of steps count
 * from 1 in each session: `a1`.
 */
export type SequenceEvent = readonly [ms: number, what: string | ScheduleEvent, wishes?: StepWishes];

export interface StepWishes extends Partial<Omit<QueuedRequest, 'sequence'>> {
  readonly replaces?: string;
}

export interface SequenceTimeline {
  readonly rule: string;
  /** Inside `sequence_batching`. */
  readonly config: string;
  readonly max_batch_size?: number;
  readonly queue_max?: number;
  /** How many are free at 0, `wk/0` and so on; 1 if left out. */
  readonly instances?: number;
  /** How long a batch takes. */
  readonly run_ms?: number;
  readonly events: readonly SequenceEvent[];
  /**
   * What comes of it, a line each: `ms instance: step@slot … reason`, `ms reject step code`, `ms closed session why`,
   * `ms listen`. Nothing else may.
   */
  readonly log: readonly string[];
}

/** As completion has it. */
const IDLE_DEFAULT = 'max_sequence_idle_microseconds: 1000000';

export function sequenceScheduler(config: string, max_batch_size = 4, queue_max = 100): Scheduler {
  const idle = config.includes('max_sequence_idle') ? '' : IDLE_DEFAULT;
  const text = `name: "m" max_batch_size: ${max_batch_size} sequence_batching { ${idle} ${config} }`;
  return createScheduler(parseModelConfig(text, 'config.pbtxt'), { queue_max, places_ahead: 0 });
}

/** Runs the scheduler in virtual time as its owner would: steps are over, then the instance is free. */
export function playSequences(given: Omit<SequenceTimeline, 'rule' | 'log'>): { log: string[]; scheduler: Scheduler } {
  const scheduler = sequenceScheduler(given.config, given.max_batch_size, given.queue_max);
  const agenda: { us: number; event: ScheduleEvent }[] = [];
  const counts = new Map<string, number>();
  const log: string[] = [];
  let wake: (typeof agenda)[number] | undefined;
  const plan = (us: number, event: ScheduleEvent) => {
    const entry = { us, event };
    agenda.push(entry);
    return entry;
  };
  const step = (ms: number, text: string, { replaces, ...wishes }: StepWishes = {}): ScheduleEvent => {
    const session = text.replace(/[\^$]/g, '');
    const count = (counts.get(session) ?? 0) + 1;
    counts.set(session, count);
    const sequence = { session, start: text.includes('^'), end: text.includes('$'), replaces };
    return {
      type: 'arrived',
      request: queuedRequest({ id: `${session}${count}`, arrivedUs: ms * 1000, sequence, ...wishes }),
    };
  };
  for (let index = 0; index < (given.instances ?? 1); index++)
    plan(0, { type: 'instance-free', instance: `wk/${index}` });
  for (const [ms, what, wishes] of given.events) {
    plan(ms * 1000, typeof what === 'string' ? step(ms, what, wishes) : what);
  }
  const apply = (decision: Decision, nowUs: number) => {
    const ms = nowUs / 1000;
    switch (decision.type) {
      case 'dispatch': {
        const { instance, batch, slots = [], reason } = decision;
        log.push(`${ms} ${instance}: ${batch.map(({ id }, index) => `${id}@${slots[index]}`).join(' ')} ${reason}`);
        const overUs = nowUs + (given.run_ms ?? 0) * 1000;
        for (const { id, sequence } of batch) plan(overUs, { type: 'step-over', id, ended: sequence?.end === true });
        plan(overUs, { type: 'instance-free', instance });
        break;
      }
      case 'reject':
        log.push(`${ms} reject ${decision.request.id} ${decision.error.code}`);
        break;
      case 'closed':
        log.push(`${ms} closed ${decision.session} ${decision.why}`);
        break;
      case 'listen':
        log.push(`${ms} listen`);
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
    if (next === undefined) return { log, scheduler };
    agenda.splice(agenda.indexOf(next), 1);
    if (next === wake) wake = undefined;
    for (const decision of scheduler.step(next.event, next.us)) apply(decision, next.us);
    if (scheduler.waiting === 0 && scheduler.needsWake !== true && wake !== undefined) {
      agenda.splice(agenda.indexOf(wake), 1);
      wake = undefined;
    }
  }
}
