import type { Batch, BatchResult } from '@nereid/backends';
import type { ModelSignature } from '@nereid/config';
import { REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { packBatch } from './batch-frame.ts';
import { createInstanceCancels } from './instance-cancels.ts';
import { isBuffers } from './instance-messages.ts';
import { openResult } from './result-frame.ts';
import { runBatch } from './run-batch.ts';

const LARGE = 100_000;
const tensorConfig = {
  name: 'T',
  datatype: 'UINT8' as const,
  dims: [-1],
  reshape: null,
  optional: false,
  ragged: false,
};
const signature: ModelSignature = {
  name: 'm',
  maxBatchSize: 0,
  inputs: [tensorConfig],
  outputs: [tensorConfig],
  batchInputs: [],
  batchOutputs: [],
  decoupled: false,
};
const line = { send: () => {}, room: () => undefined };

async function ran(bytes: number, execute: (batch: Batch) => BatchResult, needsRequests = false) {
  const input: Tensor = { name: 'T', datatype: 'UINT8', shape: [bytes], data: new Uint8Array(bytes).fill(7) };
  const request = { ...REQUEST_DEFAULTS, modelName: 'm', modelVersion: '', inputs: [input] };
  const frame = packBatch(signature, [request], 1, 0, (size) => new ArrayBuffer(size));
  const instance = { needsRequests, execute: async (batch: Batch) => execute(batch), finalize: async () => {} };
  const details = [['', 0n, false, false, 0n, 0n, {}, [], -1]] as const;
  const packed = await runBatch({ signature, version: '1', instance }, frame, details, createInstanceCancels(), line);
  return { frame, ...packed };
}

const joined = (bytes: number) => (): BatchResult => ({
  kind: 'joined',
  outputs: [{ name: 'T', datatype: 'UINT8', shape: [bytes], data: new Uint8Array(bytes).fill(9) }],
});
const each = (): BatchResult => ({
  kind: 'each',
  outcomes: [{ ok: true, response: { modelName: 'm', modelVersion: '1', id: '', parameters: {}, outputs: [] } }],
});

describe('the frame of a batch', () => {
  it.each([
    ['small outputs', 10],
    ['large ones', LARGE],
  ])('that is large goes back behind %s', async (_rule, bytes) => {
    const { frame, report, spare } = await ran(LARGE, joined(bytes));
    expect(spare).toBe(frame);
    const [head = frame, ...others] = report instanceof ArrayBuffer ? [report] : isBuffers(report) ? report : [];
    const { outputs, returned } = openResult(signature, head, others);
    expect(returned).toBeUndefined();
    expect(openResult(signature, head, [...others, frame]).returned).toBe(frame);
    expect(outputs[0]?.data).toEqual(new Uint8Array(bytes).fill(9));
  });

  it('that is small does not', async () => {
    const { spare } = await ran(100, joined(10));
    expect(spare).toBeUndefined();
  });

  it('does not where the model sees requests, which it may keep', async () => {
    const { spare } = await ran(LARGE, each, true);
    expect(spare).toBeUndefined();
  });

  it('does not with what has failed', async () => {
    const { report, spare } = await ran(LARGE, () => {
      throw new Error('no');
    });
    expect(report).toMatchObject({ kind: 'outcomes' });
    expect(spare).toBeUndefined();
  });
});
