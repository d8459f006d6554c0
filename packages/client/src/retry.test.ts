import { expect, test } from 'vitest';
import { type ErrorDetail, NereidError } from './error.ts';
import { type Failure, RETRY_DEFAULTS, retryDelayMs } from './retry.ts';

const failure = (detail: ErrorDetail, more: Partial<Failure> = {}): Failure => ({
  error: new NereidError('UNAVAILABLE', 'not now', detail),
  attempts: 1,
  repeatable: 'always',
  leftMs: 60_000,
  random: 0,
  ...more,
});

test.each<[string, Failure, number | undefined]>([
  ['a full queue, after what the server says', failure({ status: 503, retryAfterMs: 1_000 }), 1_000],
  [
    'what the server says, with something on top',
    failure({ status: 503, retryAfterMs: 1_000 }, { random: 0.5 }),
    1_100,
  ],
  ['a refused admission', failure({ status: 429, retryAfterMs: 5_000 }), 5_000],
  ['an answer without Retry-After, after half the delay at least', failure({ status: 502 }), 100],
  ['and the whole delay at most', failure({ status: 504 }, { random: 0.999 }), 199.9],
  ['the second time, after twice as long', failure({ status: 503 }, { attempts: 2 }), 200],
  ['the third time, after twice that', failure({ status: 503 }, { attempts: 3 }), 400],
  ['a connection that broke', failure({ reason: 'connection' }), 100],
  ['nothing once all attempts are made', failure({ status: 503 }, { attempts: 4 }), undefined],
  ['no mistake of the caller', failure({ status: 400 }), undefined],
  ['no failure of the model', failure({ status: 500 }), undefined],
  [
    'nothing that the server lets wait for longer than is waited',
    failure({ status: 503, retryAfterMs: 31_000 }),
    undefined,
  ],
  ['nothing whose time is over before', failure({ status: 503, retryAfterMs: 1_000 }, { leftMs: 1_000 }), undefined],
  ['no call that ran into its time-out', failure({ reason: 'timeout' }), undefined],
  ['what may be repeated if refused: a 429', failure({ status: 429 }, { repeatable: 'if refused' }), 100],
  ['but no 503', failure({ status: 503 }, { repeatable: 'if refused' }), undefined],
  ['and no broken connection', failure({ reason: 'connection' }, { repeatable: 'if refused' }), undefined],
  ['nothing of what may never be', failure({ status: 429 }, { repeatable: 'never' }), undefined],
])('repeats %s', (_what, of, delayMs) => {
  const given = retryDelayMs(of, RETRY_DEFAULTS);
  if (delayMs === undefined) expect(given).toBeUndefined();
  else expect(given).toBeCloseTo(delayMs, 6);
});
