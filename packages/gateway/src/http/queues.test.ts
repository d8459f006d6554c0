import type { CountMessage, QueueStatistics } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { parseRestricted } from '../restricted.ts';
import { httpFixture } from './http-fixture.ts';

const NONE = { count: 0, ns: 0 };
const COMPUTES = { computeInput: NONE, computeInfer: NONE, computeOutput: NONE };
const QUEUE: QueueStatistics = {
  waiting: 3,
  running: 8,
  pending: 4,
  oldestUs: 12_500,
  levels: [
    { level: 1, waiting: 1, delayed: 0 },
    { level: 2, waiting: 2, delayed: 2 },
  ],
  closes: [
    {
      reason: 'full',
      sizes: [
        { rows: 7, count: 1 },
        { rows: 8, count: 2 },
      ],
    },
    { reason: 'delay', sizes: [{ rows: 3, count: 1 }] },
  ],
};

/** Asks once, with an owner that tells this of version 1 of `simple`. */
async function get(url: string, queue: QueueStatistics | undefined) {
  const fixture = await httpFixture();
  const answer = fixture.http.inject({ method: 'GET', url });
  await fixture.arrived(1);
  fixture.coordinator.send('gw-1', {
    kind: 'counted',
    model: 'simple',
    id: (fixture.received[0] as CountMessage).id,
    versions: [
      {
        name: 'simple',
        version: '1',
        lastInferenceMs: 0,
        inferenceCount: 0,
        executionCount: 0,
        inference: {
          success: NONE,
          fail: NONE,
          queue: NONE,
          ...COMPUTES,
          cacheHit: NONE,
          cacheMiss: NONE,
        },
        responses: [],
        batches: [],
        ...(queue === undefined ? {} : { queue }),
      },
    ],
  });
  return answer;
}

describe('GET /nereid/v1/queues', () => {
  it.each(['/nereid/v1/queues', '/nereid/v1/queues?model=simple'])('%s tells what owners tell', async (url) => {
    const { statusCode, headers, body } = await get(url, QUEUE);
    expect([statusCode, headers['content-type'], JSON.parse(body)]).toEqual([
      200,
      'application/json',
      {
        queues: [
          {
            model: 'simple',
            version: '1',
            waiting: 3,
            running: 8,
            pending: 4,
            oldest_waiting_ms: 12.5,
            delayed: 2,
            levels: [
              { level: 1, waiting: 1, delayed: 0 },
              { level: 2, waiting: 2, delayed: 2 },
            ],
            batches: {
              full: { count: 3, rows: 23, sizes: { 7: 1, 8: 2 } },
              delay: { count: 1, rows: 3, sizes: { 3: 1 } },
            },
          },
        ],
      },
    ]);
  });

  it('is 503 where an owner is of a build that tells no queues', async () => {
    const { statusCode, body } = await get('/nereid/v1/queues', undefined);
    expect(statusCode).toBe(503);
    expect(JSON.parse(body)).toMatchObject({ code: 'UNAVAILABLE', error: expect.stringContaining("'simple'") });
  });

  it.each([
    ['?model=missing', { error: "requested model 'missing' is not available", code: 'INVALID_ARG' }],
    ['?model=a&model=b', { error: "'model' is given more than once", code: 'INVALID_ARG', field: 'model' }],
  ])('%s is 400', async (query, error) => {
    const { http } = await httpFixture();
    const answer = await http.inject({ method: 'GET', url: `/nereid/v1/queues${query}` });
    expect([answer.statusCode, answer.json()]).toEqual([400, error]);
  });

  it('needs the key of statistics where that is restricted, and has no other method', async () => {
    const parsed = parseRestricted(['statistics:key=secret']);
    if (!parsed.ok) throw new Error(parsed.error.message);
    const { http } = await httpFixture({ http: { restricted: parsed.value } });
    const refused = await http.inject({ method: 'GET', url: '/nereid/v1/queues' });
    expect([refused.statusCode, refused.json().code]).toEqual([403, 'INVALID_ARG']);
    const post = await http.inject({ method: 'POST', url: '/nereid/v1/queues', headers: { key: 'secret' } });
    expect(post.statusCode).toBe(405);
  });
});
