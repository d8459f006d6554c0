import { type ErrorCode, NereidError } from './error.ts';
import { isObject } from './json.ts';

export type JobState = 'waiting' | 'delayed' | 'running' | 'completed' | 'failed' | 'cancelled' | 'expired';

/** A job as the server tells it (docs/jobs.md); times are RFC 3339, what is not known is absent. */
export interface Job {
  readonly id: string;
  readonly model_name: string;
  readonly model_version?: string;
  readonly state: JobState;
  readonly created_at: string;
  readonly started_at?: string;
  readonly finished_at?: string;
  readonly attempts_made: number;
  readonly attempts_max: number;
  readonly progress?: unknown;
  /** How many go before it. */
  readonly position?: number;
  readonly tags?: readonly string[];
  readonly error?: { readonly code: ErrorCode; readonly message: string };
  readonly result_url: string;
  readonly expires_at?: string;
  readonly batch_size?: number;
  readonly worker?: string;
  readonly request_id?: string;
}

/** What a job's sender may say beside the request. */
export interface JobWishes {
  /** 0, the highest, to 1000; 100 by default. */
  readonly priority?: number;
  readonly delayMs?: number;
  /** From now until it is too late to begin. */
  readonly deadlineMs?: number;
  /** 3 by default. */
  readonly attempts?: number;
  /** How long its result can be asked for: 3,600 by default. */
  readonly resultTtlS?: number;
  /** Who is told of its end. */
  readonly webhook?: string;
  readonly tags?: readonly string[];
}

const OVER: ReadonlySet<JobState> = new Set<JobState>(['completed', 'failed', 'cancelled', 'expired']);

export function isOver({ state }: Job): boolean {
  return OVER.has(state);
}

/** Throws INTERNAL where it is none. */
export function jobOf(value: unknown): Job {
  if (isObject(value) && typeof value.id === 'string' && typeof value.state === 'string')
    return value as unknown as Job;
  throw new NereidError('INTERNAL', "the server's answer is no job");
}

/** The headers that carry the wishes. */
export function wishHeaders(wishes: JobWishes): Readonly<Record<string, string>> {
  const headers: [string, string | number | undefined][] = [
    ['Nereid-Priority', wishes.priority],
    ['Nereid-Delay-Ms', wishes.delayMs],
    ['Nereid-Deadline-Ms', wishes.deadlineMs],
    ['Nereid-Attempts', wishes.attempts],
    ['Nereid-Result-Ttl-S', wishes.resultTtlS],
    ['Nereid-Webhook', wishes.webhook],
    ['Nereid-Tag', wishes.tags === undefined || wishes.tags.length === 0 ? undefined : wishes.tags.join(', ')],
  ];
  return Object.fromEntries(
    headers.flatMap(([name, value]) => (value === undefined ? [] : [[name, headerText(String(value))]])),
  );
}

/** `fetch` sends a character a byte, and throws for those that are none: text in UTF-8, as the server reads it. */
function headerText(text: string): string {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('');
}

export function jobPath(id: string): string {
  return `/v2/jobs/${idInPath(id)}`;
}

/** Ids of ours and references of blobs fit into a path as they are, escapes and all; anything else is escaped. */
export function idInPath(id: string): string {
  return /^[A-Za-z0-9_.~%:-]+$/.test(id) ? id : encodeURIComponent(id);
}
