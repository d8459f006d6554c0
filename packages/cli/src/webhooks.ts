import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { jobPath } from './jobs.ts';
import { type CallHost, callServer } from './server-call.ts';

/** As GET /v2/jobs/{id}/webhook tells it. */
interface DeliveryJson {
  readonly job_id: string;
  readonly url: string;
  readonly state: string;
  readonly attempts_made: number;
  readonly attempts_max: number;
  readonly error?: string;
}

export interface WebhookOptions {
  readonly url: string;
  readonly id: string;
}

/** `nereid webhooks show`: how far the delivery of a job's webhook is. */
export function showWebhook(options: WebhookOptions, host: CallHost): Promise<ExitCode> {
  return told('show', 'GET', options, host);
}

/** `nereid webhooks resend`: has it sent again, whatever became of it. */
export function resendWebhook(options: WebhookOptions, host: CallHost): Promise<ExitCode> {
  return told('resend', 'POST', options, host);
}

async function told(name: string, method: 'GET' | 'POST', { url, id }: WebhookOptions, host: CallHost) {
  const path = `${jobPath(id)}/webhook`;
  const answer = await callServer({ command: `webhooks ${name}`, url, method, path, member: 'job_id' }, host);
  if (!answer.ok) return answer.exitCode;
  const delivery = answer.body as DeliveryJson;
  const { job_id: job, url: target, state, attempts_made: made, attempts_max: most, error } = delivery;
  const why = error === undefined || state === 'delivered' ? '' : `: ${error}`;
  host.stdout(`${job} ${state} to ${target}, ${made} of ${most} attempts${why}\n`);
  return EXIT_CODE.stopped;
}
