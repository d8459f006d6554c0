/** A recording for tests: every datatype, large tensors, what is redacted and what is kept as a digest. */
import type { RecordedStep, RecordedTensor, Recording } from './recorded.ts';
import { sha256 } from './sha256.ts';

export function sampleTensor(name: string, bytes: number, first = 0): RecordedTensor {
  const data = new Uint8Array(bytes).map((_, index) => (first + index) % 251);
  return { name, datatype: 'UINT8', shape: [bytes], data };
}

/** A tensor as one that is kept apart. */
export function apart(tensor: RecordedTensor): RecordedTensor {
  return { ...tensor, digest: sha256(tensor.data ?? new Uint8Array()) };
}

export const SAMPLE_RECORDING: Recording = {
  id: 'sums~gw-1:7',
  model: 'sums',
  version: '2',
  kind: 'sequence',
  correlationId: 18446744073709551615n,
  requestId: 'client-é',
  state: 'ended',
  steps: 3,
  bytes: 45_678,
  startedMs: 1_790_000_000_000.25,
  lastMs: 1_790_000_000_500,
  worker: 'wk-1',
  configSha256: 'c0',
  contentHash: 'h1',
  imported: true,
};

export const SAMPLE_STEP: RecordedStep = {
  step: 0,
  token: 'gw-1:7',
  request: {
    id: 'client-é',
    correlationId: 18446744073709551615n,
    sequenceStart: true,
    sequenceEnd: false,
    priority: 0n,
    timeoutUs: 0n,
    parameters: {},
    inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: Uint8Array.of(3, 0, 0, 0) }],
    requestedOutputs: [],
  },
  modelVersion: '2',
  configSha256: 'c0',
  contentHash: 'h1',
  worker: 'wk-1',
  instance: 0,
  slot: 0,
  batchSize: 1,
  receivedMs: 1_790_000_000_000.25,
  timing: { waitNs: 1, inputNs: 2, inferNs: 3, outputNs: 4 },
  effect: 'applied',
  answers: [
    {
      ok: true,
      parameters: {},
      outputs: [{ name: 'SUM', datatype: 'INT32', shape: [1, 1], data: Uint8Array.of(3, 0, 0, 0) }],
    },
  ],
};

const LARGE = apart(sampleTensor('LARGE', 20_000));

export const SAMPLE_STEPS: readonly RecordedStep[] = [
  SAMPLE_STEP,
  {
    ...SAMPLE_STEP,
    step: 1,
    request: {
      ...SAMPLE_STEP.request,
      sequenceStart: false,
      parameters: { text: 'ü', whole: -9223372036854775808n, real: 1, flag: true },
      inputs: [LARGE, { name: 'SECRET', datatype: 'BYTES', shape: [1], redacted: true }],
    },
    answers: [
      {
        ok: true,
        parameters: { more: false },
        outputs: [
          { ...LARGE, name: 'AGAIN' },
          { name: 'DROPPED', datatype: 'FP32', shape: [1_000_000], digest: 'ab'.repeat(32) },
          { name: 'TEXT', datatype: 'BYTES', shape: [1], data: Uint8Array.of(2, 0, 0, 0, 255, 0) },
        ],
      },
      { ok: false, error: { code: 'INTERNAL', message: 'no', reason: 'sequence_lost' } },
    ],
  },
  {
    ...SAMPLE_STEP,
    step: 2,
    request: {
      ...SAMPLE_STEP.request,
      sequenceStart: false,
      sequenceEnd: true,
      inputs: [LARGE, apart(sampleTensor('OTHER', 16_384, 5))],
    },
    effect: 'lost',
    answers: [],
  },
];
