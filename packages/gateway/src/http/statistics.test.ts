import type { CountMessage } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { httpFixture } from './http-fixture.ts';

const duration = (count: number) => ({ count, ns: count * 1_000 });
const COMPUTES = { computeInput: duration(4), computeInfer: duration(5), computeOutput: duration(6) };

/** Asks once, with an owner that tells this of version 1 of `simple`. */
async function get(url: string) {
  const fixture = await httpFixture();
  const answer = fixture.http.inject({ method: 'GET', url });
  await fixture.arrived(1);
  const question = fixture.received[0] as CountMessage;
  fixture.coordinator.send('gw-1', {
    kind: 'counted',
    model: 'simple',
    id: question.id,
    versions: [
      {
        name: 'simple',
        version: '1',
        lastInferenceMs: 1_790_000_000_123,
        inferenceCount: 9,
        executionCount: 2,
        inference: {
          success: duration(1),
          fail: duration(2),
          queue: duration(3),
          ...COMPUTES,
          cacheHit: duration(7),
          cacheMiss: duration(8),
        },
        responses: [
          {
            computeInfer: duration(11),
            computeOutput: duration(12),
            success: duration(13),
            fail: duration(14),
            emptyResponse: duration(15),
            cancel: duration(16),
          },
        ],
        batches: [
          { batchSize: 1, ...COMPUTES },
          { batchSize: 8, ...COMPUTES },
        ],
      },
    ],
  });
  return answer;
}

const COMPUTES_TEXT =
  '"compute_input":{"count":4,"ns":4000},"compute_infer":{"count":5,"ns":5000},"compute_output":{"count":6,"ns":6000}';

const TEXT =
  '{"model_stats":[{"name":"simple","version":"1","last_inference":1790000000123,"inference_count":9,' +
  '"execution_count":2,"inference_stats":{"success":{"count":1,"ns":1000},"fail":{"count":2,"ns":2000},' +
  `"queue":{"count":3,"ns":3000},${COMPUTES_TEXT},"cache_hit":{"count":7,"ns":7000},` +
  '"cache_miss":{"count":8,"ns":8000}},"response_stats":{"0":{"compute_infer":{"count":11,"ns":11000},' +
  '"compute_output":{"count":12,"ns":12000},"success":{"count":13,"ns":13000},"fail":{"count":14,"ns":14000},' +
  '"empty_response":{"count":15,"ns":15000},"cancel":{"count":16,"ns":16000}}},' +
  `"batch_stats":[{"batch_size":1,${COMPUTES_TEXT}},{"batch_size":8,${COMPUTES_TEXT}}],"memory_usage":[]}]}`;

describe('statistics over HTTP', () => {
  it.each(['/v2/models/stats', '/v2/models/simple/stats', '/v2/models/simple/versions/1/stats'])(
    "%s has Triton's members in its order",
    async (url) => {
      const { statusCode, body, headers } = await get(url);
      expect([statusCode, headers['content-type'], body]).toEqual([200, 'application/json', TEXT]);
    },
  );

  it.each([
    ['/v2/models/missing/stats', "requested model 'missing' is not available"],
    ['/v2/models/simple/versions/7/stats', "requested model version is not available for model 'simple'"],
  ])('%s is 400: %s', async (url, text) => {
    const { http } = await httpFixture();
    const answer = await http.inject({ method: 'GET', url });
    expect([answer.statusCode, answer.json()]).toEqual([400, { error: text }]);
    expect(answer.headers['nereid-error']).toBe('INVALID_ARG');
  });

  it('is 503 and to be tried again where the owner does not tell', async () => {
    const { http, clock, arrived } = await httpFixture();
    const answer = http.inject({ method: 'GET', url: '/v2/models/simple/stats' });
    await arrived(1);
    for (let steps = 0; steps < 10; steps++) clock.advanceUs(500_000);
    const { statusCode, headers } = await answer;
    expect([statusCode, headers['nereid-error'], headers['retry-after']]).toEqual([503, 'UNAVAILABLE', '1']);
  });
});
