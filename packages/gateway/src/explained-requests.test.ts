import type { ExplainedCall, ExplainedRequest, ExplainedRun } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { explainedRequests } from './explained-requests.ts';

const REQUEST: Omit<ExplainedRequest, 'process' | 'id' | 'arrivedMs' | 'arrivedUs'> = {
  ...{ requestId: '', model: 'm', version: '', trace: '', parent: null, correlationId: 0n },
  ...{ tookUs: 1_500, state: 'ok', error: null, events: [] },
};

function call(id: string, arrivedMs: number, more: Partial<ExplainedCall> = {}): ExplainedCall {
  const own = { door: 'http', owner: 'co-1', sends: 1, answers: 0, cached: false } as const;
  return { ...REQUEST, ...own, process: 'gw-1', id, arrivedMs, arrivedUs: arrivedMs * 1_000, ...more };
}

function run(id: string, arrivedMs: number, more: Partial<ExplainedRun> = {}): ExplainedRun {
  return {
    ...REQUEST,
    ...{ process: 'co-1', epoch: 1, job: '', rows: 1, priority: 0, waiting: 0, ahead: 0, running: 0 },
    ...{ copies: 0, losses: 0, queuedUs: 10, session: '', batch: null, version: '1', id, arrivedMs, arrivedUs: 0 },
    ...more,
  };
}

const told = (calls: readonly ExplainedCall[], runs: readonly ExplainedRun[], limit = 10) =>
  explainedRequests({ calls, runs, more: false }, [], limit);

test('what several processes tell of a request is one, the newest request first, the newest run first', () => {
  const { requests, more } = told(
    [call('gw-1:1', 100), call('gw-1:2', 300)],
    [run('gw-1:1', 101, { state: 'left' }), run('gw-1:1', 200, { process: 'co-2' }), run('gw-1:2', 301)],
  );
  expect(more).toBe(false);
  expect(requests.map(({ id, runs }) => [id, ...runs.map(({ process }) => process)])).toEqual([
    ['gw-1:2', 'co-1'],
    ['gw-1:1', 'co-2', 'co-1'],
  ]);
  expect(requests[1]).toMatchObject({ version: '1', arrived: new Date(100).toISOString(), took_ms: 1.5, state: 'ok' });
});

test('calls stand below the request that they were made for, in order; those of an unknown one by themselves', () => {
  const of = (id: string, step: number) => ({ parent: { id, step } });
  const { requests } = told(
    [call('gw-1:1', 100), call('ca-1:2', 103, of('gw-1:1', 1)), call('ca-1:1', 102, of('gw-1:1', 0))],
    [run('ca-1:3', 104, of('ca-1:2', -1)), run('ca-9:1', 50, of('gw-9:9', 0))],
  );
  expect(requests.map(({ id }) => id)).toEqual(['gw-1:1', 'ca-9:1']);
  expect(requests[0]?.calls.map(({ id, step }) => [id, step])).toEqual([
    ['ca-1:1', 0],
    ['ca-1:2', 1],
  ]);
  expect(requests[0]?.calls[1]?.calls).toMatchObject([{ id: 'ca-1:3', parent: 'ca-1:2' }]);
});

test('a run that stays with a job is told once, and as another beside one that is still known', () => {
  const live = run('co-1:1', Date.parse('2026-01-02T03:04:05.000Z'), { job: 'm~1' });
  const [known] = told([], [live]).requests[0]?.runs ?? [];
  if (known === undefined) throw new Error('no run');
  const before = { ...known, arrived: '2026-01-02T03:04:01.000Z' };
  const both = explainedRequests({ calls: [], runs: [live], more: false }, [known, before], 10);
  expect(both.requests.map(({ arrived, job }) => [arrived, job])).toEqual([
    ['2026-01-02T03:04:05.000Z', 'm~1'],
    ['2026-01-02T03:04:01.000Z', 'm~1'],
  ]);
});

test('beyond the limit there are more', () => {
  const { requests, more } = told([call('gw-1:1', 1), call('gw-1:2', 2), call('gw-1:3', 3)], [], 2);
  expect(requests.map(({ id }) => id)).toEqual(['gw-1:3', 'gw-1:2']);
  expect(more).toBe(true);
});
