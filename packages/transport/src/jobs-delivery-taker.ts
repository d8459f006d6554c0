import { type Clock, type Log, settledWithin, type Timer } from '@nereid/runtime';
import { DelayedError, Job, UnrecoverableError, Worker } from 'bullmq';
import type { StoredJob } from './jobs.ts';
import type { NewDelivery, WebhookMessage } from './jobs-deliveries.ts';
import { followedJobId, type QueueKind } from './jobs-names.ts';
import type { RedisClient } from './redis-connection.ts';

export interface DeliveryTakerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly client: RedisClient;
  readonly names: (model: string, kind: QueueKind) => { readonly name: string; readonly prefix: string };
  readonly together: boolean;
  /** Puts another delivery of a job down. */
  readonly add: (model: string, id: string, delivery: NewDelivery) => Promise<void>;
}

export interface ServeDeliveries {
  /** Whose deliveries are looked for. */
  readonly models: () => readonly string[];
  /** What the end of this job is told by; undefined while it is not over. `ended` is what is told of one that is gone. */
  readonly compose: (model: string, id: string, ended: StoredJob) => Promise<WebhookMessage | undefined>;
  readonly send: (url: string, message: WebhookMessage) => Promise<Sent>;
}

export type Sent =
  | { readonly ok: true }
  /** `final`: no later attempt would end otherwise. */
  | { readonly ok: false; readonly reason: string; readonly final: boolean };

export interface DeliveryTaker {
  /** Lets what is being sent end, for so long. Idempotent. */
  close(ms: number): Promise<void>;
}

/** Between two looks: a connection that waits for each model's deliveries would cost more than a second's delay. */
const LOOK_MS = 1_000;
/** A model's worker is closed after so many looks that found none. */
const IDLE_LOOKS_MAX = 10;
/** A command has so many keys at most. */
const KEYS_AT_ONCE_MAX = 999;
const AT_ONCE_MAX = 16;
/** Longer than an attempt takes. */
const LOCK_MS = 30_000;
/** Stalls are deaths of gateways, never a delivery's own doing. */
const STALLS_MAX = 1_000_000;
/** A job that is not over is looked at again after a part of its age. */
const WAIT_PARTS = 4;
const WAIT_MS_MIN = 100;
const WAIT_MS_MAX = 30_000;
/** An undelivered one says so much of why. */
const REASON_CHARACTERS_MAX = 500;

/** What a delivery's job holds. */
interface DeliveryData extends NewDelivery {
  /** From the first attempt on. */
  readonly message?: WebhookMessage;
  /** A later end of the job, put down while an earlier one was being sent. */
  readonly next?: NewDelivery;
}

interface ModelWorker {
  readonly worker: Worker;
  idleLooks: number;
}

/** Delivers by BullMQ's own worker, which a model has only while something is to be delivered for it. */
export function createDeliveryTaker(parts: DeliveryTakerParts, options: ServeDeliveries): DeliveryTaker {
  const { clock, log, client, names } = parts;
  const workers = new Map<string, ModelWorker>();
  const goings = new Set<Promise<void>>();
  let timer: Timer | undefined;
  let closing: Promise<void> | undefined;

  const keysOf = (model: string): readonly string[] => {
    const { name, prefix } = names(model, 'hooks');
    return ['wait', 'delayed', 'active'].map((set) => `${prefix}:${name}:${set}`);
  };

  const hasAny = async (models: readonly string[]) => (await client.exists(...models.flatMap(keysOf))) > 0;

  /** Which of the models have deliveries. */
  const found = async (models: readonly string[]): Promise<readonly string[]> => {
    if (parts.together && models.length > 1 && !(await hasAny(models))) return [];
    const any = await Promise.all(models.map((model) => hasAny([model])));
    return models.filter((_model, index) => any[index]);
  };

  const look = async () => {
    const models = options.models();
    const size = parts.together ? Math.floor(KEYS_AT_ONCE_MAX / 3) : models.length;
    const waiting = new Set<string>();
    for (let from = 0; from < models.length; from += size) {
      for (const model of await found(models.slice(from, from + size))) waiting.add(model);
    }
    if (closing !== undefined) return;
    for (const model of waiting) if (!workers.has(model)) workers.set(model, open(model));
    for (const [model, entry] of workers) {
      entry.idleLooks = waiting.has(model) ? 0 : entry.idleLooks + 1;
      if (entry.idleLooks < IDLE_LOOKS_MAX) continue;
      workers.delete(model);
      entry.worker.close().catch((error) => log.debug({ err: error, model }, 'deliveries not closed'));
    }
  };

  const open = (model: string): ModelWorker => {
    const { name, prefix } = names(model, 'hooks');
    const worker = new Worker(name, (job, token) => deliver(model, job, token), {
      connection: client,
      prefix,
      concurrency: AT_ONCE_MAX,
      lockDuration: LOCK_MS,
      maxStalledCount: STALLS_MAX,
    });
    worker.on('error', (error) => log.debug({ err: error, queue: name }, 'deliveries'));
    worker.on('failed', (job, error) => {
      if (job?.finishedOn === undefined) {
        log.debug({ err: error, model, job: job?.id }, 'webhook failed, trying again');
        return;
      }
      log.warn({ model, job: job.id, url: job.data?.url, why: error.message }, 'webhook undelivered');
      goOn(model, worker, job);
    });
    worker.on('completed', (job) => goOn(model, worker, job));
    return { worker, idleLooks: 0 };
  };

  /** Tells the end that came while an earlier one was being sent. */
  const goOn = (model: string, worker: Worker, { id = '' }: Job) => {
    const step = async () => {
      const next = (await Job.fromId<Partial<DeliveryData>>(worker, id))?.data?.next;
      if (next !== undefined) await parts.add(model, followedJobId(id), next);
    };
    const going = step()
      .catch((error) => log.error({ err: error, model, job: id }, 'the webhook of a second end is left out'))
      .finally(() => goings.delete(going));
    goings.add(going);
  };

  const deliver = async (model: string, job: Job, token: string | undefined): Promise<void> => {
    const { id = '' } = job;
    const { next, ...own } = job.data as DeliveryData;
    const { url, ended, message: known } = next === undefined ? own : { ...next, message: undefined };
    const message = known ?? (await options.compose(model, followedJobId(id), ended));
    if (message === undefined) {
      const waitMs = Math.min(WAIT_MS_MAX, Math.max(WAIT_MS_MIN, (clock.wallMs() - job.timestamp) / WAIT_PARTS));
      await job.moveToDelayed(clock.wallMs() + waitMs, token);
      throw new DelayedError();
    }
    // So that a later attempt says the same, also when the job is gone by then.
    if (known === undefined) await job.updateData({ url, ended, message });
    const sent = await options.send(String(url), message);
    if (sent.ok) return;
    const reason = sent.reason.slice(0, REASON_CHARACTERS_MAX);
    const error = sent.final ? new UnrecoverableError(reason) : new Error(reason);
    // Where it was made tells nobody anything.
    error.stack = '';
    throw error;
  };

  const round = () => {
    look()
      .catch((error) => log.debug({ err: error }, 'deliveries not looked for, trying again'))
      .finally(() => {
        if (closing === undefined) timer = clock.at(clock.nowUs() + LOOK_MS * 1000, round);
      });
  };
  round();

  const shutDown = async (ms: number) => {
    timer?.cancel();
    const closed = Promise.allSettled([...workers.values()].map(({ worker }) => worker.close()));
    if (!(await settledWithin(closed, ms, clock))) {
      await Promise.allSettled([...workers.values()].map(({ worker }) => worker.disconnect()));
    }
    workers.clear();
    await settledWithin(Promise.allSettled(goings), ms, clock);
  };

  return {
    close(ms) {
      closing ??= shutDown(ms);
      return closing;
    },
  };
}
