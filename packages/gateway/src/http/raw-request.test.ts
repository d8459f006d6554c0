import { type ModelSignature, modelSignature } from '@nereid/config';
import { describe, expect, it } from 'vitest';
import { identity, modelRecord, SIMPLE } from '../gateway-fixture.ts';
import { rawRequest } from './raw-request.ts';

const signature = (config: string): ModelSignature => modelSignature(modelRecord(config).config);
const bytes = (length: number) => new Uint8Array(length).fill(7);

describe('a raw body is the one input', () => {
  it.each([
    ['variable dimension', identity('m', 'FP32'), 12, [3]],
    ['one of two variable', identity('m', 'FP32', '2, -1'), 24, [2, 3]],
    ['empty', identity('m', 'FP32'), 0, [0]],
    ['fixed', identity('m', 'INT64', '2'), 16, [2]],
    ['batch of one', identity('m', 'FP32', '-1', 'max_batch_size: 4'), 8, [1, 2]],
    ['batch of one, fixed', identity('m', 'UINT8', '2, 2', 'max_batch_size: 4'), 4, [1, 2, 2]],
    ['a dimension of zero', identity('m', 'FP32', '0, -1'), 0, [0, 0]],
  ])('%s', (_name, config, length, shape) => {
    const raw = rawRequest(signature(config), '3', bytes(length));
    expect(raw).toMatchObject({
      ok: true,
      request: { modelName: 'm', modelVersion: '3', id: '', inputs: [{ name: 'INPUT', shape, data: bytes(length) }] },
    });
  });

  it('with its length before it where the datatype is BYTES', () => {
    const raw = rawRequest(signature(identity('m', 'STRING', '1')), '', Buffer.from('hello'));
    const data = Uint8Array.from([5, 0, 0, 0, ...Buffer.from('hello')]);
    expect(raw).toMatchObject({ ok: true, request: { inputs: [{ datatype: 'BYTES', shape: [1], data }] } });
  });
});

describe('a raw body is refused', () => {
  it.each([
    [
      SIMPLE,
      8,
      "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in 'simple' model configuration",
    ],
    [
      identity('m', 'FP32', '-1, -1'),
      8,
      "The shape of the raw input 'INPUT' can not be deduced because there are more than one variable-sized dimension",
    ],
    [identity('m', 'STRING', '-1'), 5, "For BYTE datatype raw input 'INPUT', the model must have input shape [1]"],
    [identity('m', 'STRING', '2'), 5, "For BYTE datatype raw input 'INPUT', the model must have input shape [1]"],
    [identity('m', 'FP32'), 5, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 4, got 5"],
    [identity('m', 'FP32', '2'), 4, "input byte size mismatch for input 'raw_input' for model 'm'. Expected 8, got 4"],
    [
      identity('m', 'FP32', '0, -1'),
      4,
      "input byte size mismatch for input 'raw_input' for model 'm'. Expected 0, got 4",
    ],
  ])('%s', (config, length, message) => {
    expect(rawRequest(signature(config), '', bytes(length))).toEqual({
      ok: false,
      error: { code: 'INVALID_ARG', message: `[request id: <id_unknown>] ${message}`, field: 'body' },
    });
  });
});
