import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeJobData } from './job-data.ts';
import { plainJobRequest } from './job-plain.ts';

const options = { modelName: 'm', limits: { json_depth_max: 20, elements_max: 1_000, bytes_max: 1_000_000 } };

const outcome = (data: object) => {
  try {
    return decodeJobData(data, options);
  } catch (error) {
    return { text: String(error) };
  }
};

const datatype = fc.constantFrom(
  'FP32',
  'FP64',
  'INT8',
  'UINT8',
  'INT32',
  'UINT32',
  'INT64',
  'BOOL',
  'BYTES',
  'FP16',
  'X',
);
const element = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: -300, max: 300 }) },
  fc.double(),
  fc.constantFrom(0, -0, 1e39, 1e300, 2 ** 31, 2 ** 53, 0.1, '7', 'NaN', null, true, [1]),
);
const shape = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 3 }) },
  fc.constantFrom([0], [-1], [1.5], [2 ** 40], [600, 3], 'no', ['1'], undefined),
);
const b64 = fc.oneof(
  fc.uint8Array({ maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString('base64')),
  fc.constantFrom('!', 5),
);
const content = fc.oneof(
  { weight: 4, arbitrary: fc.record({ data: fc.array(element, { maxLength: 6 }) }) },
  fc.record({ b64 }),
  fc.record({ data: fc.constantFrom(3, 'x', [[1]]), b64 }),
  fc.constant({}),
);
const name = fc.constantFrom('IN', 'a b', '', 'ü', '"', 5, undefined);
const input = fc
  .tuple(fc.record({ name, datatype, shape }), content, fc.constantFrom({}, {}, {}, { parameters: {} }, { more: 1 }))
  .map(([head, body, more]) => ({ ...head, ...body, ...more }));
/** Of the right length, so that many are in order. */
const good = fc
  .tuple(
    fc.constantFrom('FP32', 'FP64', 'INT32', 'UINT8'),
    fc.oneof(
      { weight: 3, arbitrary: fc.array(fc.nat(255), { minLength: 1, maxLength: 5 }) },
      fc.array(element, { minLength: 1, maxLength: 5 }),
    ),
  )
  .map(([type, data]) => ({ name: 'IN', datatype: type, shape: [1, data.length], data }));
const others = fc.record(
  {
    id: fc.constantFrom('one', 'ü', '', 7),
    parameters: fc.constantFrom({}, { priority: 3 }, { sequence_id: 4 }, 5),
    model_version: fc.constantFrom('1', 'x'),
    sequence_index: fc.constantFrom(0, -1),
  },
  { requiredKeys: [] },
);
const job = fc
  .tuple(
    fc.oneof(fc.array(good, { minLength: 1, maxLength: 2 }), fc.array(fc.oneof(good, input), { maxLength: 3 })),
    fc.oneof({ weight: 2, arbitrary: fc.constant({}) }, others),
  )
  .map(([inputs, more]) => ({ inputs, ...more }));

test('plain job data are read as the whole reader reads them, and what is wrong has its texts', () => {
  let plain = 0;
  fc.assert(
    fc.property(job, (data) => {
      if (plainJobRequest(data, options) !== undefined) plain += 1;
      // A list of no outputs asks for all, as none does, and is left to the whole reader.
      expect(outcome(data)).toEqual(outcome({ ...data, outputs: [] }));
    }),
    { numRuns: 1_000 },
  );
  expect(plain).toBeGreaterThan(100);
});

test.each([
  ['numbers', { name: 'IN', datatype: 'FP32', shape: [1, 2], data: [0.5, -0] }],
  ['base64', { name: 'IN', datatype: 'BYTES', shape: [1], b64: '' }],
  ['base64 of 64-bit integers', { name: 'IN', datatype: 'INT64', shape: [1], b64: 'AQAAAAAAAAA=' }],
])('%s are plain', (_what, tensor) => {
  const data = { v: 1, parameters: {}, inputs: [tensor], respond: 'binary', result_ttl_s: 60 };
  expect(plainJobRequest(data, options)).toBeDefined();
  expect(decodeJobData(data, options)).toEqual(decodeJobData({ ...data, outputs: [] }, options));
});

test('more elements than are allowed are left to the whole reader', () => {
  const tensor = { name: 'IN', datatype: 'FP32', shape: [600], data: Array(600).fill(1) };
  const data = { inputs: [tensor, tensor] };
  expect(plainJobRequest(data, options)).toBeUndefined();
  expect(() => decodeJobData(data, options)).toThrow(/1000/);
});
