import { randomBytes } from 'node:crypto';
import { encodeName } from './encode-name.ts';

/** Of a model's queues: its jobs, those that died, and the deliveries of webhooks. */
export type QueueKind = 'infer' | 'dead' | 'hooks';

/** The BullMQ queue of a model. */
export function jobQueueName(model: string, kind: QueueKind = 'infer'): string {
  return `${kind}.${encodeName(model)}`;
}

/** BullMQ's key prefix of a model's queue: `%m` stands for the model. */
export function jobQueuePrefix(prefix: string, model: string): string {
  return prefix.replaceAll('%m', encodeName(model));
}

/** A job's id for clients, which fits into a path as it is: `<model>~<BullMQ id>`, both encoded. */
export function publicJobId(model: string, id: string): string {
  return `${encodeName(model)}~${encodeName(id)}`;
}

/** What a queue has beside its jobs, under names that no job can have. */
const QUEUE_PARTS: ReadonlySet<string> = new Set([
  'active',
  'wait',
  'waiting-children',
  'paused',
  'id',
  'delayed',
  'prioritized',
  'stalled-check',
  'completed',
  'failed',
  'stalled',
  'repeat',
  'limiter',
  'meta',
  'events',
  'pc',
  'marker',
  'de',
]);
/** What belongs to a job, to a sequence, and to what a queue counts. */
const OTHER_PARTS = /:(?:lock|logs|dependencies|processed|failed|unsuccessful)$|^(?:metrics|nereid-gate|de):/;

/** Model and BullMQ id of a public id; undefined where it is none, as of what names another key of the queue. */
export function parsePublicJobId(text: string): { readonly model: string; readonly id: string } | undefined {
  // Some encode the tilde in a path, which changes nothing (RFC 3986).
  const [model = '', id = '', more] = text.split(text.includes('~') ? '~' : /%7e/i);
  if (model === '' || id === '' || more !== undefined) return undefined;
  try {
    const jobId = decodeURIComponent(id);
    if (QUEUE_PARTS.has(jobId) || OTHER_PARTS.test(jobId)) return undefined;
    return { model: decodeURIComponent(model), id: jobId };
  } catch {
    return undefined;
  }
}

/** A whole number, as BullMQ gives it to a job that comes without an id: it takes none such from outside. */
const COUNTED = /^-?[0-9]+$/;
const MARK = '#';
/** Of `repeat:<scheduler>:<time>`. */
const SCHEDULED_COLONS = 2;

/** The id of what follows a job (its dead letter, its delivery) in the queue of these. Another one for each id. */
export function followUpId(jobId: string): string {
  if (isOwnId(jobId) && !jobId.startsWith(MARK)) return jobId;
  return `${MARK}${jobId.replaceAll('%', '%25').replaceAll(':', '%3A')}`;
}

/** The job's id of a `followUpId`. */
export function followedJobId(id: string): string {
  return id.startsWith(MARK) ? id.slice(MARK.length).replaceAll('%3A', ':').replaceAll('%25', '%') : id;
}

/** Whether BullMQ takes it as the id of a new job. That of a job scheduler's may have more colons. */
export function isOwnId(jobId: string): boolean {
  const colons = jobId.split(':').length - 1;
  return !COUNTED.test(jobId) && (colons === 0 || colons === SCHEDULED_COLONS);
}

/** Crockford's base 32. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const TIME_DIGITS = 10;
const RANDOM_DIGITS = 16;

/** A ULID: milliseconds since the epoch in 10 digits, then 80 random bits in 16; later ones sort later. */
export function newJobId(wallMs: number): string {
  let time = '';
  for (let left = Math.floor(wallMs); time.length < TIME_DIGITS; left = Math.floor(left / DIGITS.length)) {
    time = DIGITS.charAt(left % DIGITS.length) + time;
  }
  let random = '';
  // 256 is a multiple of 32, so each digit is as likely.
  for (const byte of randomBytes(RANDOM_DIGITS)) random += DIGITS.charAt(byte % DIGITS.length);
  return time + random;
}
