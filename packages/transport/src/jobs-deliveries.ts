/**
 * Deliveries of webhooks: jobs of BullMQ's queue `hooks.<model>`, each under the id of the job whose end it tells. It is
 * put down before that job ends, so that no death in between loses it; whoever delivers waits until the job is over, and
 * tries again with back-off. One that was tried too often stays failed there, until it is sent again by hand or its time
 * is over.
 */
import type { Clock, Log } from '@nereid/runtime';
import type { Job } from 'bullmq';
import type { StoredJob } from './jobs.ts';
import { unlessRefused } from './jobs-changes.ts';
import { createDeliveryTaker, type DeliveryTaker, type ServeDeliveries } from './jobs-delivery-taker.ts';
import { followUpId, type QueueKind } from './jobs-names.ts';
import type { JobsLink } from './jobs-safe-writes.ts';

/** What is told, the same at each attempt. */
export interface WebhookMessage {
  readonly id: string;
  readonly body: string;
}

export interface NewDelivery {
  readonly url: string;
  /** The job as it is to be: told where it is gone by the time of the delivery. Without its inputs and its result. */
  readonly ended: StoredJob;
}

/** As Redis has it. */
export interface Delivery {
  readonly url: string;
  readonly state: 'waiting' | 'sending' | 'delivered' | 'undelivered';
  readonly attemptsMade: number;
  readonly attemptsMax: number;
  /** Of the last attempt, where that failed. */
  readonly error: string | undefined;
  readonly createdMs: number;
  readonly finishedMs: number | undefined;
}

/** All reject with UNAVAILABLE where Redis does not answer. */
export interface Deliveries {
  find(model: string, id: string): Promise<Delivery | undefined>;
  /** Tries at once and from the first attempt on, whatever became of it; false where there is none. */
  resend(model: string, id: string): Promise<boolean>;
  /**
   * Takes the place of what is known of the job: only its last end is told. Where an earlier one is just being sent,
   * this one follows it.
   */
  add(model: string, id: string, delivery: NewDelivery): Promise<void>;
  /** As `add`, for a client who has asked for it. */
  addAnew(model: string, id: string, delivery: NewDelivery): Promise<void>;
  /** Delivers for these models from now on; to be closed before the queues. */
  serve(options: ServeDeliveries): DeliveryTaker;
}

export interface DeliveriesParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly link: JobsLink;
  /** Of what is promised once it resolves. */
  readonly safe: JobsLink;
  readonly names: (model: string, kind: QueueKind) => { readonly name: string; readonly prefix: string };
  /** One command may name keys of several queues, unlike in a Cluster. */
  readonly together: boolean;
}

/** At 5 s, 10 s, 20 s …: the last after 2 h 50 min. */
export const DELIVERY_ATTEMPTS = 12;
const BACKOFF_MS = 5_000;
/** Deliveries to one target that was down are not to come back all at once. */
const JITTER = 0.25;
/** BullMQ's names are free. */
const NAME = 'webhook';
const KEEP_MAX = 1_000;
const DAY_S = 86_400;
const WEEK_S = 604_800;
/** Of a model, undelivered; what is beyond is not told, or a target that is down would fill Redis. */
const WAITING_MAX = 100_000;

export function createDeliveries(parts: DeliveriesParts): Deliveries {
  const { log, link, safe } = parts;
  const read = async (model: string, id: string, { queue } = link) =>
    (await queue(model, 'hooks').getJob(followUpId(id))) as Job | undefined;

  const put = (by: JobsLink, [model, id]: readonly [model: string, id: string], { url, ended }: NewDelivery) =>
    by.ask(async () => {
      const queue = by.queue(model, 'hooks');
      const known = await read(model, id, by);
      if (known !== undefined && !(await unlessRefused(known.remove()))) {
        const next: NewDelivery = { url, ended };
        await unlessRefused(known.updateData({ ...known.data, next }));
        const now = await read(model, id, by);
        // Else it was over before it could see that.
        if (now !== undefined && now.finishedOn === undefined) return;
        await now?.remove();
      }
      if ((await queue.count()) >= WAITING_MAX) {
        log.error({ model, job: id, url }, `webhook not sent: ${WAITING_MAX} of the model wait already`);
        return;
      }
      await queue.add(NAME, { url, ended }, deliveryOptions(id));
    });
  const add = (model: string, id: string, delivery: NewDelivery) => put(link, [model, id], delivery);

  return {
    find: (model, id) =>
      link.ask(async () => {
        const job = await read(model, id);
        return job && delivery(job, await job.getState());
      }),
    resend(model, id) {
      // A repeated question finds what the first has done.
      let removed: Job | undefined;
      const addAgain = ({ data }: Job) => safe.queue(model, 'hooks').add(NAME, data, deliveryOptions(id));
      return safe.ask(async () => {
        const job = await read(model, id, safe);
        if (job === undefined) {
          if (removed !== undefined) await addAgain(removed);
          return removed !== undefined;
        }
        const state = await job.getState();
        if (state === 'failed' || state === 'completed') {
          await job.retry(state, { resetAttemptsMade: true, resetAttemptsStarted: true });
        } else if (await unlessRefused(job.remove())) {
          // There is no other way to begin its attempts anew. One that is just being sent is left.
          removed = job;
          await addAgain(job);
        }
        return true;
      });
    },
    add,
    addAnew: (model, id, delivery) => put(safe, [model, id], delivery),
    serve: (options) => createDeliveryTaker({ ...parts, client: link.client(), add }, options),
  };
}

function deliveryOptions(id: string) {
  return {
    jobId: followUpId(id),
    attempts: DELIVERY_ATTEMPTS,
    backoff: { type: 'exponential', delay: BACKOFF_MS, jitter: JITTER },
    removeOnComplete: { count: KEEP_MAX, age: DAY_S },
    removeOnFail: { count: KEEP_MAX, age: WEEK_S },
  };
}

function delivery(job: Job, state: string): Delivery {
  return {
    url: String(job.data?.url ?? ''),
    state: deliveryState(state),
    attemptsMade: job.attemptsMade,
    attemptsMax: Math.max(1, job.opts.attempts ?? 1),
    // What is delivered may have failed before.
    error: state === 'completed' ? undefined : job.failedReason || undefined,
    createdMs: job.timestamp,
    finishedMs: job.finishedOn,
  };
}

function deliveryState(state: string): Delivery['state'] {
  switch (state) {
    case 'completed':
      return 'delivered';
    case 'failed':
      return 'undelivered';
    case 'active':
      return 'sending';
    default:
      return 'waiting';
  }
}
