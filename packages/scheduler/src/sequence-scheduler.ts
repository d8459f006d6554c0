import { QUEUE_FULL } from '@nereid/protocol';
import type { ReadySteps } from './ready-steps.ts';
import type { Decision, QueuedRequest, ScheduleEvent, Scheduler } from './schedule.ts';
import type { SequenceInstance } from './sequence-instances.ts';
import { createSequenceLanes } from './sequence-lanes.ts';

export interface SequenceSchedulerOptions<R extends QueuedRequest = QueuedRequest> {
  /** Sequences that an instance keeps at a time. */
  readonly slots: number;
  /** max_sequence_idle_microseconds. */
  readonly idle_us: number;
  /** Steps that may wait; one more is refused. */
  readonly queue_max: number;
  /** How batches are made of what an instance's sequences have ready. */
  readonly createReadySteps: () => ReadySteps<R>;
  /** Its rule asks who was answered. */
  readonly wantsAnswered: boolean;
}

/**
 * Triton's sequence batcher (sequence_batch_scheduler.cc), over the instances of all workers.
 *
 * A sequence gets the lowest slot number that is free anywhere, so that sequences spread over instances before they
 * share one; among equals on the instance with the fewest, then on the one known longest. Else it waits in the backlog,
 * with all of its steps, until one that came earlier has a slot and the next slot is free. A START for a live
 * correlation id waits behind the steps of the session that it ends and has its slot then.
 *
 * What the strategy lets go (sequence-direct.ts, sequence-oldest.ts) is dispatched when its instance is free: one step of a
 * sequence at a time, the next once that one is over. The sessions of an instance that is lost keep their slots, as
 * their owner may find them again, until it says that they are over; but those of which nothing was sent go elsewhere.
 *
 * A step refused because too many wait does not end its session: whoever is told of it does. So does who takes a step
 * away. A step of a session that is not known opens it, START or not: which it must be is decided before.
 */
export function createSequenceScheduler<R extends QueuedRequest = QueuedRequest>(
  options: SequenceSchedulerOptions<R>,
): Scheduler<R> {
  let decisions: Decision<R>[] = [];
  const lanes = createSequenceLanes<R>({ ...options, decide: (decision) => decisions.push(decision) });
  let draining = false;
  /** The wake that the caller knows of, infinite for none. */
  let wishedUs = Number.POSITIVE_INFINITY;
  /** Whose steps were over last: what is answered is theirs. */
  let answering: SequenceInstance<R> | undefined;

  const touchAll = (which: (instance: SequenceInstance<R>) => boolean) => {
    for (const instance of lanes.instances) if (which(instance)) lanes.touched.add(instance);
  };

  const take = (event: ScheduleEvent<R>, nowUs: number) => {
    switch (event.type) {
      case 'arrived':
        if (lanes.waiting < options.queue_max) lanes.arrive(event.request, nowUs);
        else decisions.push({ type: 'reject', request: event.request, error: QUEUE_FULL });
        break;
      case 'returned':
        lanes.giveBack(event.request, nowUs);
        break;
      case 'step-over':
        answering = lanes.over(event.id, event.ended, nowUs) ?? answering;
        break;
      case 'session-held':
        lanes.hold(event.session, event.held, nowUs);
        break;
      case 'heard':
        lanes.heard(event.upToUs);
        break;
      case 'session-over':
        lanes.forget(event.session, nowUs);
        break;
      case 'bound':
        lanes.bind(event.session, event.instance, event.slot, nowUs);
        break;
      case 'instance-free':
        lanes.free(event.instance, nowUs);
        break;
      case 'instance-draining':
        lanes.drain(event.instance, nowUs);
        break;
      case 'instance-lost':
        lanes.lose(event.instance, nowUs);
        break;
      case 'answered':
        answering?.ready.answered(event.requests, event.runUs, nowUs);
        break;
      case 'draining':
        draining = true;
        touchAll(() => true);
        break;
      case 'cancelled':
      case 'running':
      case 'time':
        break;
    }
  };

  const dispatch = (nowUs: number) => {
    for (const instance of lanes.touched) {
      while (instance.free > 0) {
        const next = instance.ready.next(nowUs, draining);
        if (next === undefined) break;
        instance.free--;
        lanes.sent(instance, next);
        decisions.push({ type: 'dispatch', instance: instance.key, ...next });
      }
    }
    lanes.touched.clear();
  };

  const nextUs = (nowUs: number): number => {
    // What was to be decided when an instance was lost, when others of its worker may be lost as well.
    if (lanes.touched.size > 0) return nowUs;
    let earliestUs = lanes.nextExpiryUs;
    for (const { free, ready } of lanes.instances) {
      if (free > 0) earliestUs = Math.min(earliestUs, ready.lookUs);
    }
    return earliestUs;
  };

  return {
    wants: { answered: options.wantsAnswered, running: false },
    get waiting() {
      return lanes.waiting;
    },
    get needsWake() {
      return lanes.size > 0;
    },
    get sessions() {
      return lanes.list();
    },
    step(event, nowUs) {
      decisions = [];
      const { type } = event;
      if (type === 'time') {
        wishedUs = Number.POSITIVE_INFINITY;
        touchAll(({ ready }) => ready.lookUs <= nowUs);
      }
      // A step that comes in time, as far as anybody could tell its sender, is still one of its session.
      if (type !== 'arrived' && type !== 'returned') lanes.expire(nowUs);
      take(event, nowUs);
      // Another event follows.
      if (type === 'returned') return decisions;
      lanes.expire(nowUs);
      if (type !== 'instance-lost') dispatch(nowUs);
      if (lanes.asksHeard(nowUs)) decisions.push({ type: 'listen' });
      const untilUs = nextUs(nowUs);
      // A wake that comes too early finds nothing to do and asks for the next: cheaper than to move it each time.
      if (untilUs < wishedUs) {
        wishedUs = untilUs;
        decisions.push({ type: 'wake', atUs: untilUs });
      }
      // The caller may have dropped its timer then, so the next wish is told anew.
      if (lanes.size === 0) wishedUs = Number.POSITIVE_INFINITY;
      return decisions;
    },
  };
}
