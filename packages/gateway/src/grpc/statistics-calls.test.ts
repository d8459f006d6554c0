import type { CountMessage } from '@nereid/protocol';
import { afterEach, describe, expect, it } from 'vitest';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { ask, type GrpcFixture, grpcFixture } from './grpc-fixture.ts';

const { modelStatistics } = GRPCInferenceService.method;

const told = (count: number) => ({ count, ns: count * 1_000 });
const shown = (count: number) => ({ count: BigInt(count), ns: BigInt(count) * 1_000n });
const PHASES = { computeInput: told(4), computeInfer: told(5), computeOutput: told(6) };
const SHOWN_PHASES = { computeInput: shown(4), computeInfer: shown(5), computeOutput: shown(6) };

let fixture: GrpcFixture;
afterEach(() => fixture.close());

describe('ModelStatistics', () => {
  it.each([
    ['of a model', { name: 'simple' }],
    ['of a version', { name: 'simple', version: '1' }],
    ['of all models', {}],
  ])('%s tells all that its owner has counted', async (_what, request) => {
    fixture = await grpcFixture();
    const asked = ask(fixture.client(), modelStatistics, request);
    await fixture.arrived(1);
    const { id } = fixture.received[0] as CountMessage;
    fixture.coordinator.send('gw-1', {
      kind: 'counted',
      model: 'simple',
      id,
      versions: [
        {
          name: 'simple',
          version: '1',
          lastInferenceMs: 1_790_000_000_123,
          inferenceCount: 9,
          executionCount: 2,
          inference: {
            // More than a number can tell apart.
            success: { count: 1, ns: 2 ** 60 },
            fail: told(2),
            queue: told(3),
            ...PHASES,
            cacheHit: told(7),
            cacheMiss: told(8),
          },
          responses: [
            {
              computeInfer: told(11),
              computeOutput: told(12),
              success: told(13),
              fail: told(14),
              emptyResponse: told(15),
              cancel: told(16),
            },
          ],
          batches: [{ batchSize: 8, ...PHASES }],
        },
      ],
    });
    expect(await asked).toMatchObject({
      code: 0,
      message: {
        modelStats: [
          {
            name: 'simple',
            version: '1',
            lastInference: 1_790_000_000_123n,
            inferenceCount: 9n,
            executionCount: 2n,
            inferenceStats: {
              success: { count: 1n, ns: 2n ** 60n },
              fail: shown(2),
              queue: shown(3),
              ...SHOWN_PHASES,
              cacheHit: shown(7),
              cacheMiss: shown(8),
            },
            responseStats: {
              0: {
                computeInfer: shown(11),
                computeOutput: shown(12),
                success: shown(13),
                fail: shown(14),
                emptyResponse: shown(15),
                cancel: shown(16),
              },
            },
            batchStats: [{ batchSize: 8n, ...SHOWN_PHASES }],
            memoryUsage: [],
          },
        ],
      },
    });
  });

  it.each([
    [{ name: 'missing' }, "requested model 'missing' is not available"],
    [{ name: 'simple', version: '7' }, "requested model version is not available for model 'simple'"],
    [
      { name: 'simple', version: 'one' },
      "failed to get model version from specified version string 'one' (details: stol), version should be an integral value > 0",
    ],
  ])('of %j is refused', async (request, details) => {
    fixture = await grpcFixture();
    expect(await ask(fixture.client(), modelStatistics, request)).toMatchObject({ code: 3, details });
  });

  it('is unavailable where the owner does not tell', async () => {
    fixture = await grpcFixture();
    const asked = ask(fixture.client(), modelStatistics, { name: 'simple' });
    await fixture.arrived(1);
    for (let steps = 0; steps < 10; steps++) fixture.clock.advanceUs(500_000);
    expect(await asked).toMatchObject({ code: 14, detail: 'UNAVAILABLE' });
  });
});
