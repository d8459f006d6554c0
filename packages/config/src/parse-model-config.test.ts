import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, equals } from '@bufbuild/protobuf';
import { toText } from '@bufbuild/protobuf/txtpb';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FIXTURES } from './fixture-models.ts';
import { DataType, type ModelConfig, ModelConfigSchema, ModelInstanceGroup_Kind } from './gen/model_config_pb.ts';
import { LIMITS } from './limits.ts';
import { decodeModelConfig, encodeModelConfig } from './model-config-json.ts';
import { parseModelConfig } from './parse-model-config.ts';

function message(text: string): string {
  try {
    parseModelConfig(text, 'config.pbtxt');
  } catch (error) {
    expect(error).toMatchObject({ name: 'NereidError', code: 'INVALID_ARG' });
    return error instanceof Error ? error.message : '';
  }
  return 'no error';
}

describe('texts that are right', () => {
  test.each(['add_sub', 'classifier', 'optional_inputs', 'reshaped', 'simple', 'versions_specific'])('%s', (name) => {
    const config = parseModelConfig(readFileSync(join(FIXTURES, name, 'config.pbtxt'), 'utf8'), 'config.pbtxt');
    expect(config.name).toBe(name);
    expect(config.input.length).toBeGreaterThan(0);
  });

  test('the grammar beyond the usual', () => {
    const config = parseModelConfig(
      `\uFEFF# a comment
      name: 'a' "b" max_batch_size: 0x10;
      input < name: "I" data_type: 11, dims: [ 010, -1 ] >
      instance_group [ { kind: KIND_CPU } ],
      parameters { key: "k" value: { string_value: "v\\n" } }
      model_transaction_policy { decoupled: t }`,
      'config.pbtxt',
    );
    expect(config.name).toBe('ab');
    expect(config.maxBatchSize).toBe(16);
    expect(config.input[0]).toMatchObject({ dataType: DataType.TYPE_FP32, dims: [8n, -1n] });
    expect(config.instanceGroup[0]?.kind).toBe(ModelInstanceGroup_Kind.CPU);
    expect(config.parameters.k?.stringValue).toBe('v\n');
    expect(config.modelTransactionPolicy?.decoupled).toBe(true);
  });

  test('an empty text', () => {
    expect(equals(ModelConfigSchema, parseModelConfig('', 'config.pbtxt'), create(ModelConfigSchema))).toBe(true);
  });
});

describe('texts that are wrong', () => {
  test.each([
    [
      'an unknown field',
      'name: "m"\nmax_batchsize: 4\n',
      'config.pbtxt:2:1: unknown field "max_batchsize" in ModelConfig; did you mean "max_batch_size"?',
    ],
    [
      'an unknown field of an inner message',
      'input [\n  { name: "I", data_typ: TYPE_FP32 }\n]',
      'config.pbtxt:2:16: unknown field "data_typ" in ModelInput; did you mean "data_type"?',
    ],
    [
      'an unknown field like none',
      'version_policy { newest { } }',
      'config.pbtxt:1:18: unknown field "newest" in ModelVersionPolicy; known are latest, all, specific',
    ],
    [
      'an unknown enum value',
      'instance_group { kind: KIND_GPUS }',
      'config.pbtxt:1:24: unknown value "KIND_GPUS" for kind; did you mean "KIND_GPU"?',
    ],
    [
      'an enum number that has no name',
      'input { name: "I" dims: 77\n data_type: 77 }',
      /^config\.pbtxt:2:13: data_type has no value 77; it is one of TYPE_INVALID, TYPE_BOOL/,
    ],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: what an unfilled template looks like
    ['a placeholder', 'name: "m"\nmax_batch_size: ${mbs}', 'config.pbtxt:2:17: max_batch_size: unexpected "$"'],
    [
      'text for a number',
      'max_batch_size: "4"',
      'config.pbtxt:1:17: max_batch_size: expected an integer, got a string',
    ],
    ['a number for text', 'name: 4', 'config.pbtxt:1:7: name: expected a string, got "4"'],
    ['a number out of range', '\n\n max_batch_size: 5000000000', /^config\.pbtxt:3:18: .*max_batch_size.*5000000000/],
    ['a wrong element of a list', 'input { dims: [ 4, x ] }', 'config.pbtxt:1:20: dims: expected an integer, got "x"'],
    ['a fraction', 'max_batch_size: 1.5', 'config.pbtxt:1:17: max_batch_size: expected an integer, got "1.5"'],
    [
      'the name of a prototype',
      'parameters {\n key: "__proto__" value { } }',
      'config.pbtxt:2:7: key: the name __proto__ cannot be used',
    ],
    ['no colon', 'name "m"', /^config\.pbtxt:1:6: expected ":" before value of field "name"/],
    ['a field twice', 'name: "a"\nname: "b"', /^config\.pbtxt:2:1: non-repeated field "name" is repeated/],
    [
      'two schedulers',
      'dynamic_batching { }\nsequence_batching { }',
      /^config\.pbtxt:2:1: oneof "scheduling_choice" is already set/,
    ],
    [
      'an unclosed brace',
      'name: "m"\ninput {\n  name: "I"\n',
      'config.pbtxt:4:1: unexpected end of input, expected "}" ("{" of line 2:7 is not closed)',
    ],
    ['a brace too many', 'name: "m" }', /^config\.pbtxt:1:11: expected a field name, got "}"/],
    ['an unclosed string', 'name: "m\nbackend: "x"', /^config\.pbtxt:1:7: .*in string/],
    ['text that is no config', 'hello world', /^config\.pbtxt:1:1: unknown field "hello" in ModelConfig/],
    ['a comment before the mistake', '# max_batch: 3\nmax_batch_sice: 3', /^config\.pbtxt:2:1: unknown field/],
  ])('%s', (_name, text, expected) => {
    if (typeof expected === 'string') expect(message(text)).toBe(expected);
    else expect(message(text)).toMatch(expected);
  });

  test('the field is told apart', () => {
    expect(() => parseModelConfig('max_batch_size: x', 's')).toThrow(
      expect.objectContaining({ field: 'max_batch_size' }),
    );
  });

  test('a text that is too long', () => {
    expect(message('#'.repeat(LIMITS.config_bytes_max + 1))).toMatch(/4194305 characters, more than 4194304/);
  });

  test('deep nesting is refused and does not overflow', () => {
    expect(message('input {'.repeat(100_000))).toMatch(/^config\.pbtxt:1:8: unknown field "input" in ModelInput/);
  });
});

const name = fc.string({ maxLength: 12, unit: 'grapheme' });
const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const int32 = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const uint64 = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
const dataType = fc.integer({ min: 0, max: 14 });
const io = fc.record({
  name,
  dataType,
  dims: fc.array(int64, { maxLength: 4 }),
  reshape: fc.option(fc.record({ shape: fc.array(int64, { maxLength: 3 }) }), { nil: undefined }),
});
const batching = fc.record({
  preferredBatchSize: fc.array(int32, { maxLength: 3 }),
  maxQueueDelayMicroseconds: uint64,
  preserveOrdering: fc.boolean(),
  priorityQueuePolicy: fc.dictionary(uint64.map(String), fc.record({ defaultTimeoutMicroseconds: uint64 }), {
    maxKeys: 2,
  }),
});
const configs: fc.Arbitrary<ModelConfig> = fc
  .record({
    name,
    platform: name,
    maxBatchSize: int32,
    input: fc.array(io, { maxLength: 3 }),
    output: fc.array(io, { maxLength: 3 }),
    instanceGroup: fc.array(
      fc.record({ name, kind: fc.integer({ min: 0, max: 3 }), count: int32, gpus: fc.array(int32, { maxLength: 2 }) }),
      { maxLength: 2 },
    ),
    parameters: fc.dictionary(
      name.filter((key) => key !== '__proto__'),
      fc.record({ stringValue: name }),
      { maxKeys: 3 },
    ),
    schedulingChoice: fc.option(
      batching.map((value) => ({ case: 'dynamicBatching' as const, value })),
      { nil: { case: undefined } },
    ),
  })
  .map((init) => create(ModelConfigSchema, init as Parameters<typeof create<typeof ModelConfigSchema>>[1]));

test('printing and reading keeps random configs, in both forms', () => {
  fc.assert(
    fc.property(configs, (config) => {
      expect(equals(ModelConfigSchema, parseModelConfig(toText(ModelConfigSchema, config), 's'), config)).toBe(true);
      expect(equals(ModelConfigSchema, decodeModelConfig(encodeModelConfig(config)), config)).toBe(true);
    }),
  );
});

test('whatever the text, it is a config or a NereidError with a position', () => {
  const words = fc.constantFrom(
    'name',
    ':',
    '"x"',
    '{',
    '}',
    '[',
    ']',
    'input',
    'dims',
    '4',
    '-',
    ',',
    '#',
    '\n',
    "'",
    '$',
  );
  fc.assert(
    fc.property(fc.array(words, { maxLength: 12 }), (parts) => {
      const text = message(parts.join(' '));
      if (text !== 'no error') expect(text).toMatch(/^config\.pbtxt:\d+:\d+: /);
    }),
  );
});
