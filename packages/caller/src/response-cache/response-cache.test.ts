import { parseModelConfig } from '@nereid/config';
import {
  type BlobTensor,
  type CarriedOutcome,
  type InferRequest,
  type Outcome,
  REQUEST_DEFAULTS,
  type Tensor,
} from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { describe, expect, it, test } from 'vitest';
import { createLeaving, type LeaveSignal } from '../leave-signal.ts';
import type { ModelFound } from '../model-lookup.ts';
import type { CachedCounts, HitTimes } from './cached-counts.ts';
import type { KeptAnswer, ResponseStore } from './kept-answer.ts';
import { createResponseCache, isCacheable } from './response-cache.ts';

const INPUT: Tensor = { name: 'INPUT', datatype: 'INT8', shape: [1], data: Uint8Array.of(1) };
const OUTPUT: Tensor = { name: 'OUTPUT', datatype: 'INT8', shape: [1], data: Uint8Array.of(2) };

const request = (id: string, rest: Partial<InferRequest> = {}): InferRequest => ({
  ...REQUEST_DEFAULTS,
  modelName: 'm',
  id,
  inputs: [INPUT],
  ...rest,
});

function found(contentHash = 'h'): ModelFound {
  const config = parseModelConfig('name: "m" backend: "javascript"', 'config.pbtxt');
  const record = { name: 'm', config, contentHash, labels: {}, versions: [] };
  const signature = { name: 'm' } as ModelFound['signature'];
  const named = { ok: true, name: 'm', alias: undefined, record, signature, version: '1' } as const;
  return { ...named, closesEarly: false, cachesAnswers: true, readyVersions: ['1'] };
}

const success = (id: string, modelVersion = '1'): Outcome & { readonly ok: true } => ({
  ok: true,
  response: { modelName: 'm', modelVersion, id, parameters: { p: 1n }, outputs: [OUTPUT] },
});
/** Of which only the name has come. */
const NAMED: BlobTensor = {
  ...{ name: 'OUTPUT', datatype: 'INT8', shape: [1] },
  blob: { place: 'worker', id: 'wk-1', bytes: 1 },
};
const away = (id: string): CarriedOutcome => ({ ok: true, response: { ...success(id).response, outputs: [NAMED] } });
const failure = (message: string): Outcome => ({ ok: false, error: { code: 'INTERNAL', message } });
const settled = () => new Promise((resolve) => setImmediate(resolve));

interface Sent {
  readonly request: InferRequest;
  readonly signal: LeaveSignal;
  readonly msLeft: number;
  readonly answer: (outcome: CarriedOutcome) => void;
}

/** `elsewhere`: the store answers by promises, each when the test says so. */
function fixture({ elsewhere = false, requests_pending_max = 10 } = {}) {
  const clock = virtualClock();
  const kept = new Map<string, KeptAnswer>();
  const sent: Sent[] = [];
  const hits: HitTimes[] = [];
  const misses: number[] = [];
  const unwanted: CarriedOutcome[] = [];
  const lookups: (() => void)[] = [];
  let now = found();
  const store: ResponseStore = {
    find(key) {
      if (!elsewhere) return kept.get(key);
      return new Promise((resolve) => lookups.push(() => resolve(kept.get(key))));
    },
    keep(key, answer) {
      kept.set(key, answer);
      clock.advanceUs(2);
      return undefined;
    },
    close() {},
  };
  const counts: CachedCounts = {
    hit: (_found, times) => hits.push(times),
    miss: (_found, missUs) => misses.push(missUs),
    tell() {},
  };
  const cache = createResponseCache({
    clock,
    store,
    counts,
    models: { find: () => now },
    requests_pending_max,
    unwanted: (outcome) => unwanted.push(outcome),
    submit: (asked, { signal = createLeaving(), msLeft = 0 }) =>
      new Promise((answer) => {
        sent.push({ request: asked, signal, msLeft, answer });
        signal.addEventListener('abort', () => answer({ ok: false, error: { code: 'CANCELLED', message: 'gone' } }));
      }),
  });
  /** Asks, and tells the outcome once it is there. */
  const ask = (asked: InferRequest, signal?: LeaveSignal, msLeft = 0) => {
    const state: { outcome?: CarriedOutcome } = {};
    void cache.infer(now, asked, { signal, msLeft }).then((outcome) => {
      state.outcome = outcome;
    });
    return state;
  };
  return {
    cache,
    clock,
    kept,
    sent,
    hits,
    misses,
    unwanted,
    lookups,
    ask,
    reload: (hash: string) => {
      now = found(hash);
    },
  };
}

describe('a request to a model whose answers are kept', () => {
  test('runs, and an equal one is answered by what it was answered, under its own id', async () => {
    const { ask, sent, clock, hits, misses, cache } = fixture();
    const first = ask(request('a'));
    expect([sent.length, cache.waiting]).toEqual([1, 0]);
    sent[0]?.answer(success('a'));
    await settled();
    expect(first.outcome).toEqual(success('a'));
    expect(misses).toEqual([2]);
    clock.advanceUs(50);
    const second = ask(request('b', { priority: 2n, timeoutUs: 5n }));
    await settled();
    expect(second.outcome).toEqual(success('b'));
    expect([sent.length, hits]).toEqual([1, [{ requestUs: 0, queueUs: 0, lookupUs: 0 }]]);
  });

  test.each([
    ['an error', failure('no')],
    ['an answer of another version', success('a', '2')],
  ])('%s is handed out and not kept', async (_what, outcome) => {
    const { ask, sent, kept, misses } = fixture();
    const first = ask(request('a'));
    sent[0]?.answer(outcome);
    await settled();
    expect([first.outcome, kept.size, misses]).toEqual([outcome, 0, []]);
    ask(request('a'));
    expect(sent.length).toBe(2);
  });

  test('is not answered by what other files of the model answered, nor is an answer kept that may be of these', async () => {
    const { ask, sent, kept, reload } = fixture();
    ask(request('a'));
    sent[0]?.answer(success('a'));
    await settled();
    reload('other');
    ask(request('b'));
    expect(sent.length).toBe(2);
    reload('third');
    sent[1]?.answer(success('b'));
    await settled();
    expect(kept.size).toBe(1);
  });

  test('with another answer wanted does not wait with it', () => {
    const { ask, sent } = fixture();
    ask(request('a'));
    ask(request('a', { requestedOutputs: ['OUTPUT'] }));
    ask(request('a', { priority: 1n }));
    ask(request('a', { timeoutUs: 9n }));
    expect(sent.length).toBe(4);
  });
});

describe('equal requests at the same time', () => {
  test('share one run; each has its own id, and all but the first are hits that waited', async () => {
    const { ask, sent, clock, hits, misses, cache } = fixture();
    const first = ask(request('a'));
    clock.advanceUs(10);
    const others = ['b', 'c'].map((id) => ask(request(id)));
    expect([sent.length, cache.waiting]).toEqual([1, 2]);
    clock.advanceUs(30);
    sent[0]?.answer(success('a'));
    await settled();
    expect([first, ...others].map(({ outcome }) => outcome)).toEqual(['a', 'b', 'c'].map((id) => success(id)));
    expect(hits).toEqual([
      { requestUs: 32, queueUs: 32, lookupUs: 0 },
      { requestUs: 32, queueUs: 32, lookupUs: 0 },
    ]);
    expect([misses, cache.waiting]).toEqual([[2], 0]);
  });

  test('share an error, each under its own id', async () => {
    const { ask, sent } = fixture();
    const asked = ['a', '', 'c'].map((id) => ask(request(id)));
    sent[0]?.answer(failure('[request id: a] it broke'));
    await settled();
    expect(asked.map(({ outcome }) => outcome)).toEqual([
      failure('[request id: a] it broke'),
      failure('[request id: <id_unknown>] it broke'),
      failure('[request id: c] it broke'),
    ]);
  });

  test('go on where the first gives up, and are cancelled with the last', async () => {
    const { ask, sent, kept } = fixture();
    const leaving = [createLeaving(), createLeaving()];
    const [first, second] = leaving.map((signal, index) => ask(request(String(index)), signal));
    leaving[0]?.leave('gone');
    await settled();
    expect([first?.outcome, second?.outcome, sent[0]?.signal.aborted]).toMatchObject([
      { ok: false, error: { code: 'CANCELLED' } },
      undefined,
      false,
    ]);
    leaving[1]?.leave('gone');
    await settled();
    expect([second?.outcome?.ok, sent[0]?.signal.aborted, kept.size]).toEqual([false, true, 0]);
    // The next one does not wait for what was cancelled.
    const third = ask(request('c'));
    expect(sent.length).toBe(2);
    sent[1]?.answer(success('c'));
    await settled();
    expect(third.outcome).toEqual(success('c'));
  });

  test('run again where the first had a deadline, has left, and its request failed', async () => {
    const { ask, sent, clock } = fixture();
    const leaving = createLeaving();
    ask(request('a'), leaving, 5);
    const others = [ask(request('b'), undefined, 9), ask(request('c'))];
    expect(sent[0]?.msLeft).toBe(5);
    clock.advanceUs(6_000);
    leaving.leave('too late');
    sent[0]?.answer({ ok: false, error: { code: 'UNAVAILABLE', message: 'its time is over' } });
    await settled();
    expect([sent.length, sent[1]?.request.id, sent[1]?.msLeft]).toEqual([2, 'b', 3]);
    sent[1]?.answer(success('b'));
    await settled();
    expect(others.map(({ outcome }) => outcome)).toEqual([success('b'), success('c')]);
  });

  test('each run by themselves where the answer stays with a worker', async () => {
    const { ask, sent, kept, cache, unwanted } = fixture();
    const asked = ['a', 'b', 'c'].map((id) => ask(request(id)));
    sent[0]?.answer(away('a'));
    await settled();
    expect(sent.map(({ request: { id } }) => id)).toEqual(['a', 'b', 'c']);
    for (const { request: each, answer } of sent.slice(1)) answer(away(each.id));
    await settled();
    expect(asked.map(({ outcome }) => outcome)).toEqual(['a', 'b', 'c'].map(away));
    expect([kept.size, cache.waiting, unwanted]).toEqual([0, 0, []]);
  });

  test('let an answer go that stays with a worker, where the one it was for has left', async () => {
    const { ask, sent, unwanted } = fixture();
    const leaving = createLeaving();
    ask(request('a'), leaving);
    ask(request('b'));
    leaving.leave('gone');
    sent[0]?.answer(away('a'));
    await settled();
    expect([sent[1]?.request.id, unwanted]).toEqual(['b', [away('a')]]);
  });

  test('are bounded', async () => {
    const { ask, sent } = fixture({ requests_pending_max: 2 });
    ask(request('a'));
    ask(request('b'));
    const third = ask(request('c'));
    await settled();
    expect([third.outcome, sent.length]).toMatchObject([{ ok: false, error: { code: 'UNAVAILABLE' } }, 1]);
  });
});

describe('a store elsewhere', () => {
  test('is asked once for equal requests, which are hits where it has the answer', async () => {
    const { ask, sent, kept, lookups, hits, clock, cache } = fixture({ elsewhere: true });
    ask(request('a'));
    lookups[0]?.();
    await settled();
    sent[0]?.answer(success('a'));
    await settled();
    expect(kept.size).toBe(1);
    const asked = ['b', 'c'].map((id) => ask(request(id)));
    expect([lookups.length, cache.waiting]).toEqual([2, 2]);
    clock.advanceUs(40);
    lookups[1]?.();
    await settled();
    expect(asked.map(({ outcome }) => outcome)).toEqual([success('b'), success('c')]);
    expect(hits).toEqual([
      { requestUs: 40, queueUs: 0, lookupUs: 40 },
      { requestUs: 40, queueUs: 0, lookupUs: 40 },
    ]);
    expect(sent.length).toBe(1);
  });

  test('is not waited for where all have left', async () => {
    const { ask, sent, lookups, cache } = fixture({ elsewhere: true });
    const leaving = createLeaving();
    ask(request('a'), leaving);
    leaving.leave('gone');
    lookups[0]?.();
    await settled();
    expect([sent.length, cache.waiting]).toEqual([0, 0]);
  });

  test('fails what waits at the end, and tells when nobody waits', async () => {
    const { ask, lookups, sent, cache } = fixture({ elsewhere: true });
    let empty = 0;
    cache.whenEmpty(() => empty++);
    const waiting = ask(request('a'));
    cache.whenEmpty(() => empty++);
    expect(empty).toBe(1);
    cache.close(failure('stopping'));
    lookups[0]?.();
    await settled();
    expect([waiting.outcome, empty, sent.length]).toEqual([failure('stopping'), 2, 0]);
  });
});

describe('what is never answered from a cache', () => {
  it.each<[string, Partial<InferRequest>, boolean]>([
    ['an ordinary request', {}, true],
    ['one with parameters', { parameters: { a: 1n } }, true],
    ['a step by a number', { correlationId: 1n }, false],
    ['a step by a text', { correlationId: 's' }, false],
    ['one that is to be recorded', { journal: true }, false],
    ['one that is not to be', { journal: false }, true],
    ['one that is replayed', { shownId: 0n }, false],
    ['a START', { sequenceStart: true }, false],
    ['an END', { sequenceEnd: true }, false],
  ])('%s', (_what, rest, expected) => {
    expect(isCacheable(request('a', rest))).toBe(expected);
  });
});
