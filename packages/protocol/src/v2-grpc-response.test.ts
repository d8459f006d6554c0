import { describe, expect, it } from 'vitest';
import type { InferResponse } from './infer.ts';
import { message, packed } from './sample-grpc-message.ts';
import { encodeGrpcResponse, encodeGrpcStreamResponse } from './v2-grpc-response.ts';

const EMPTY: InferResponse = { modelName: '', modelVersion: '', id: '', parameters: {}, outputs: [] };
const whole = (parts: readonly Uint8Array[]) => Buffer.concat(parts).toString('hex');
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

describe('a response', () => {
  it('has names, outputs, and their bytes behind', () => {
    const response: InferResponse = {
      modelName: 'simple',
      modelVersion: '1',
      id: 'é',
      parameters: { t: '', b: false, i: -1n, u: 18_446_744_073_709_551_615n },
      outputs: [
        { name: 'Y', datatype: 'INT32', shape: [1, 300], data: Uint8Array.of(1, 2, 3, 4) },
        { name: 'Z', datatype: 'BYTES', shape: [], data: new Uint8Array(0) },
      ],
    };
    expect(whole(encodeGrpcResponse(response))).toBe(
      hex(
        message(
          [1, 'simple'],
          [2, '1'],
          [3, 'é'],
          [
            4,
            [
              [1, 't'],
              [2, [[3, '']]],
            ],
          ],
          [
            4,
            [
              [1, 'b'],
              [2, [[1, 0]]],
            ],
          ],
          [
            4,
            [
              [1, 'i'],
              [2, [[2, -1]]],
            ],
          ],
          [
            4,
            [
              [1, 'u'],
              [2, [[5, -1]]],
            ],
          ],
          [
            5,
            [
              [1, 'Y'],
              [2, 'INT32'],
              [3, packed(1, 300)],
            ],
          ],
          [
            5,
            [
              [1, 'Z'],
              [2, 'BYTES'],
            ],
          ],
          [6, Uint8Array.of(1, 2, 3, 4)],
          [6, ''],
        ),
      ),
    );
  });

  it('that is empty is no bytes', () => {
    expect(whole(encodeGrpcResponse(EMPTY))).toBe('');
  });

  it('in a stream stands within its message, beside an error', () => {
    expect(whole(encodeGrpcStreamResponse({ ...EMPTY, id: 'a' }))).toBe(hex(message([2, [[3, 'a']]])));
    expect(whole(encodeGrpcStreamResponse({ ...EMPTY, id: 'a' }, 'no'))).toBe(hex(message([1, 'no'], [2, [[3, 'a']]])));
    expect(whole(encodeGrpcStreamResponse(EMPTY))).toBe(hex(message([2, ''])));
  });

  it('large tensors stand in it as they are, small ones are copied', () => {
    const large = new Uint8Array(100_000).fill(7);
    const small = new Uint8Array(10).fill(8);
    const output = (data: Uint8Array) => ({ name: 'Y', datatype: 'UINT8' as const, shape: [data.length], data });
    const response = { ...EMPTY, outputs: [output(large), output(small), output(large)] };
    const parts = encodeGrpcResponse(response);
    expect(parts.filter((part) => part === large)).toHaveLength(2);
    expect(parts).toHaveLength(4);
    const expected = message(
      ...response.outputs.map(
        ({ shape }) =>
          [
            5,
            [
              [1, 'Y'],
              [2, 'UINT8'],
              [3, packed(...shape)],
            ],
          ] as const,
      ),
      ...response.outputs.map(({ data }) => [6, data] as const),
    );
    expect(whole(parts) === hex(expected)).toBe(true);
  });

  it('over the bound of gRPC is refused', () => {
    const data = new Proxy(new Uint8Array(0), {
      get: (target, key) => (key === 'byteLength' ? 2 ** 31 : Reflect.get(target, key)),
    });
    const response: InferResponse = { ...EMPTY, outputs: [{ name: 'Y', datatype: 'UINT8', shape: [1], data }] };
    expect(() => encodeGrpcResponse(response)).toThrow(
      /^Response has byte size \d+ which exceeds gRPC's byte size limit 2147483647\.$/,
    );
  });
});
