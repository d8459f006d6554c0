import type { IncomingHttpHeaders } from 'node:http';
import { WAIT_MS_MAX } from './jobs-headers.ts';

/** What a request says of when it wants to be answered (RFC 7240). */
export interface Preference {
  /** As the answer tells what was honoured. */
  readonly applied: string;
  /** So long its answer is waited for. */
  readonly waitMs: number;
}

const WAIT = /^wait\s*=\s*"?([0-9]{1,9})"?$/;

/** `respond-async` and `wait=n` (seconds); undefined where neither is asked for. What else is preferred is left out. */
export function preferenceOf(headers: IncomingHttpHeaders): Preference | undefined {
  const given = headers.prefer;
  if (given === undefined) return undefined;
  const applied: string[] = [];
  let wait: number | undefined;
  // A preference that is given twice counts as given first.
  for (const text of String(given).toLowerCase().split(',')) {
    const [preference = ''] = text.split(';', 1);
    const name = preference.trim();
    if (name === 'respond-async' && !applied.includes(name)) applied.push(name);
    const seconds = WAIT.exec(name)?.[1];
    if (seconds === undefined || wait !== undefined) continue;
    wait = Math.min(Number(seconds), WAIT_MS_MAX / 1000);
    applied.push(`wait=${wait}`);
  }
  return applied.length === 0 ? undefined : { applied: applied.join(', '), waitMs: (wait ?? 0) * 1000 };
}
