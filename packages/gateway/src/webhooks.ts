import { createHash } from 'node:crypto';
import type { ModelRecord } from '@nereid/config';
import { parseFailedReason } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { type Directory, type JobQueues, publicJobId, type StoredJob, type WebhookMessage } from '@nereid/transport';
import { jobJson } from './job-json.ts';
import { jobExpiry } from './jobs.ts';
import type { WebhookOptions } from './webhook-rules.ts';
import { createWebhookSender } from './webhook-send.ts';

export interface WebhooksParts {
  readonly queues: JobQueues;
  readonly directory: Directory<ModelRecord>;
  readonly clock: Clock;
  readonly log: Log;
  readonly options: WebhookOptions;
}

export interface Webhooks {
  /** What is being sent may end within so long; it is tried again elsewhere or later. */
  close(ms: number): Promise<void>;
}

const ID_CHARACTERS = 27;

/** Tells the ends of jobs to who wants to hear of them, for all models of the cluster; any number of gateways do. */
export function createWebhooks({ queues, directory, clock, options }: WebhooksParts): Webhooks {
  const sender = createWebhookSender(options, () => clock.wallMs());
  const taker = queues.deliveries.serve({
    models: () => directory.records().map(({ name }) => name),
    async compose(model, id, ended) {
      const job = await queues.find(model, id);
      if (job !== undefined && job.finishedMs === undefined) return undefined;
      return webhookMessage(job ?? ended, clock.wallMs());
    },
    send: sender.send,
  });
  return {
    async close(ms) {
      await taker.close(ms);
      sender.close();
    },
  };
}

/** The same for the same end of a job, so that its receiver tells a repetition from another. */
export function webhookMessage(job: StoredJob, nowMs: number): WebhookMessage {
  const { finishedMs = nowMs } = job;
  const name = `${publicJobId(job.model, job.id)} ${finishedMs}`;
  const id = `msg_${createHash('sha256').update(name).digest('base64url').slice(0, ID_CHARACTERS)}`;
  const data = jobJson(job, jobExpiry(job, nowMs));
  return { id, body: JSON.stringify({ type: typeOf(job), timestamp: new Date(finishedMs).toISOString(), data }) };
}

function typeOf({ state, failedReason = '' }: StoredJob): string {
  if (state === 'completed') return 'job.completed';
  return parseFailedReason(failedReason).code === 'CANCELLED' ? 'job.cancelled' : 'job.failed';
}
