import { isDeepStrictEqual } from 'node:util';
import { parseModelConfig } from '@nereid/config';
import { type InferRequest, type Parameters, REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cacheKey } from './cache-key.ts';

const config = parseModelConfig('name: "m" backend: "javascript"', 'config.pbtxt');

interface Parts {
  readonly name?: string;
  readonly version?: string;
  readonly contentHash?: string;
  readonly inputs?: readonly Tensor[];
  readonly outputs?: readonly string[];
  readonly parameters?: Parameters;
  readonly rest?: Partial<InferRequest>;
}

const A: Tensor = { name: 'A', datatype: 'INT32', shape: [2, 1], data: Uint8Array.of(1, 0, 0, 0, 2, 0, 0, 0) };
const B: Tensor = { name: 'B', datatype: 'BYTES', shape: [1], data: Uint8Array.of(1, 0, 0, 0, 65) };

function key({ name = 'm', version = '1', contentHash = 'h', inputs = [A, B], ...parts }: Parts = {}): string {
  const record = { name, config, contentHash, labels: {}, versions: [] };
  return cacheKey({ record, version }, contentHash, {
    ...REQUEST_DEFAULTS,
    modelName: name,
    inputs,
    requestedOutputs: parts.outputs ?? ['X'],
    parameters: parts.parameters ?? { p: 1n },
    ...parts.rest,
  });
}

const changed = (change: Partial<Tensor>) => ({ inputs: [{ ...A, ...change }, B] });

describe('the key of a request', () => {
  it.each<[string, Parts]>([
    ['model', { name: 'n' }],
    ['version', { version: '2' }],
    ['files of the model', { contentHash: 'i' }],
    ['name of an input', changed({ name: 'C' })],
    ['datatype of an input', changed({ datatype: 'UINT32' })],
    ['shape of an input', changed({ shape: [1, 2] })],
    ['rank of an input', changed({ shape: [2] })],
    ['data of an input', changed({ data: Uint8Array.of(1, 0, 0, 0, 3, 0, 0, 0) })],
    ['an input less', { inputs: [A] }],
    [
      'data moved to another input',
      {
        inputs: [
          { ...A, data: B.data },
          { ...B, data: A.data },
        ],
      },
    ],
    ['outputs wanted', { outputs: ['X', 'Y'] }],
    ['all outputs wanted', { outputs: [] }],
    ['value of a parameter', { parameters: { p: 2n } }],
    ['kind of a parameter', { parameters: { p: '1' } }],
    ['whole and real', { parameters: { p: 1 } }],
    ['name of a parameter', { parameters: { q: 1n } }],
    ['a parameter less', { parameters: {} }],
  ])('changes with: %s', (_part, parts) => {
    expect(key(parts)).not.toBe(key());
  });

  it.each<[string, Parts]>([
    ['order of the inputs', { inputs: [B, A] }],
    ['id', { rest: { id: 'other' } }],
    ['priority', { rest: { priority: 3n } }],
    ['time-out', { rest: { timeoutUs: 7n } }],
    ['how the version was asked for', { rest: { modelVersion: '1' } }],
    ['an output named twice', { outputs: ['X', 'X'] }],
  ])('does not change with: %s', (_part, parts) => {
    expect(key(parts)).toBe(key());
  });

  it('does not change with the order of outputs and parameters', () => {
    expect(key({ outputs: ['Y', 'X'] })).toBe(key({ outputs: ['X', 'Y'] }));
    expect(key({ parameters: { a: 1n, b: true } })).toBe(key({ parameters: { b: true, a: 1n } }));
    expect(key({ parameters: { a: -0 } })).not.toBe(key({ parameters: { a: 0 } }));
  });

  const text = fc.constantFrom('', 'a', 'b', '"', ',');
  const arbitraryParts = fc.record(
    {
      name: text,
      version: fc.constantFrom('1', '11'),
      tensors: fc.dictionary(
        text,
        fc.record(
          {
            datatype: fc.constantFrom('INT8' as const, 'BYTES' as const),
            shape: fc.array(fc.nat(1), { maxLength: 2 }),
            data: fc.uint8Array({ max: 1, maxLength: 2 }),
          },
          { noNullPrototype: true },
        ),
        { maxKeys: 2, noNullPrototype: true },
      ),
      outputs: fc.uniqueArray(text, { maxLength: 1 }),
      parameters: fc.dictionary(text, fc.constantFrom('1', true, 1n, 1, 0, -0), { maxKeys: 1, noNullPrototype: true }),
    },
    { noNullPrototype: true },
  );
  type ArbitraryParts = typeof arbitraryParts extends fc.Arbitrary<infer T> ? T : never;
  const keyOf = ({ tensors, ...parts }: ArbitraryParts, turned = 0) => {
    const inputs = Object.entries(tensors).map(([name, each]) => ({ ...each, name }));
    return key({ ...parts, inputs: [...inputs.slice(turned), ...inputs.slice(0, turned)] });
  };

  it('two requests have one key where they are equal in every part, and only there', () => {
    fc.assert(
      fc.property(arbitraryParts, arbitraryParts, fc.nat(2), (one, other, turned) => {
        expect(keyOf(one, turned)).toBe(keyOf(one));
        expect(keyOf(one) === keyOf(other)).toBe(isDeepStrictEqual(one, other));
      }),
      { numRuns: 1_000 },
    );
  });
});
