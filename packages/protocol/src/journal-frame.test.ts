import { describe, expect, test } from 'vitest';
import { decodeJournalFrame, encodeStepFrame, encodeTensorFrame } from './journal-frame.ts';
import type { RecordedStep } from './recorded.ts';

const STEP: RecordedStep = {
  step: 3,
  token: 'gw-1:12',
  request: {
    id: 'client-é',
    correlationId: 18446744073709551615n,
    sequenceStart: true,
    sequenceEnd: false,
    sequenceStep: 3,
    priority: 2n,
    timeoutUs: 9007199254740993n,
    parameters: { text: 'ü', flag: true, whole: -9223372036854775808n, real: 0.5, none: Number.NaN, __proto__x: 'y' },
    inputs: [
      { name: 'A', datatype: 'INT32', shape: [1, 2], data: new Uint8Array([1, 0, 0, 0, 2, 0, 0, 0]) },
      { name: 'EMPTY', datatype: 'FP32', shape: [0], data: new Uint8Array() },
      { name: 'SECRET', datatype: 'BYTES', shape: [1], redacted: true },
      { name: 'LARGE', datatype: 'UINT8', shape: [20_000], digest: 'ab'.repeat(32) },
    ],
    requestedOutputs: ['C'],
  },
  modelVersion: '2',
  configSha256: 'c',
  contentHash: 'h',
  worker: 'wk-1',
  instance: 1,
  slot: -1,
  batchSize: 4,
  receivedMs: 1_790_000_000_000.25,
  timing: { waitNs: 1_500, inputNs: 2_500, inferNs: 3_500, outputNs: 4_500 },
  effect: 'applied',
  answers: [
    {
      ok: true,
      parameters: { more: false },
      outputs: [{ name: 'C', datatype: 'BYTES', shape: [1], data: new Uint8Array([2, 0, 0, 0, 255, 0]) }],
    },
    { ok: false, error: { code: 'INTERNAL', message: 'no', field: 'f', reason: 'sequence_lost' } },
  ],
};

describe('a frame of the journal', () => {
  test('gives back the step that it is of, whatever its values', () => {
    expect(decodeJournalFrame(encodeStepFrame(STEP))).toEqual({ kind: 'step', step: STEP });
  });

  test('tells ids that are numbers from those that are texts', () => {
    const request = { ...STEP.request, correlationId: '7' };
    const read = decodeJournalFrame(encodeStepFrame({ ...STEP, request }));
    expect(read).toMatchObject({ step: { request: { correlationId: '7' } } });
  });

  test('does not hold what a digest names', () => {
    const named = {
      name: 'L',
      datatype: 'UINT8',
      shape: [4],
      digest: 'd',
      data: new Uint8Array([9, 9, 9, 9]),
    } as const;
    const read = decodeJournalFrame(encodeStepFrame({ ...STEP, request: { ...STEP.request, inputs: [named] } }));
    expect(read).toMatchObject({ step: { request: { inputs: [{ name: 'L', digest: 'd' }] } } });
    expect(read.kind === 'step' && read.step.request.inputs[0]).not.toHaveProperty('data');
  });

  test('of a tensor has its digest and its data', () => {
    const data = new Uint8Array([1, 2, 3]);
    expect(decodeJournalFrame(encodeTensorFrame('d', data))).toEqual({ kind: 'tensor', digest: 'd', data });
  });

  test.each([
    ['what is none', Buffer.from('no frame at all'), 'it is none'],
    ['one of a later build', changed(2, 9), 'it is of version 9, and this build reads version 1'],
    ['an unknown kind', changed(3, 77), 'its kind 77 is unknown'],
    ['a head that is cut', encodeStepFrame(STEP).subarray(0, 20), 'it ends within its head'],
    ['a head that is too long', long(16_777_217), 'its head has over 16777216 bytes'],
    [
      'bytes behind its tensors',
      Buffer.concat([encodeStepFrame(STEP), Buffer.of(0)]),
      '1 bytes stand behind its tensors',
    ],
    ['a tensor that is cut', encodeStepFrame(STEP).subarray(0, -1), 'it ends within a tensor'],
  ])('refuses %s', (_, bytes, why) => {
    expect(() => decodeJournalFrame(bytes)).toThrow(why);
  });
});

function changed(offset: number, value: number): Buffer {
  const bytes = Buffer.from(encodeStepFrame(STEP));
  bytes[offset] = value;
  return bytes;
}

function long(headBytes: number): Buffer {
  const bytes = Buffer.from(encodeStepFrame(STEP));
  bytes.writeUInt32LE(headBytes, 4);
  return bytes;
}
