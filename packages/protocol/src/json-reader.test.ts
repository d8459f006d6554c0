import { describe, expect, it } from 'vitest';
import { NereidError } from './error.ts';
import { jsonCursor } from './json-cursor.ts';
import { expectEnd, readScalar, skipValue } from './json-reader.ts';
import { decodeInferRequest } from './v2-request.ts';

const LIMITS = { json_depth_max: 100, elements_max: 1_000_000, bytes_max: 8_000_000 };

function message(text: string): string {
  try {
    decodeInferRequest(Buffer.from(text), { modelName: 'm', modelVersion: '', limits: LIMITS });
  } catch (error) {
    if (error instanceof NereidError && error.code === 'INVALID_ARG') return error.message;
    throw error;
  }
  return 'accepted';
}

const PREFIX = 'failed to parse the request JSON buffer: ';

describe('a body that is no JSON', () => {
  it.each([
    ['', 'The document is empty. at 0'],
    ['   ', 'The document is empty. at 3'],
    ['hello', 'Invalid value. at 0'],
    ['\ufeff{}', 'Invalid value. at 0'],
    ["{'inputs':[]}", 'Missing a name for object member. at 1'],
    ['{"inputs":[]} x', 'The document root must not be followed by other values. at 14'],
    ['{"inputs":[]}}}', 'The document root must not be followed by other values. at 13'],
    ['{"inputs":[', 'Invalid value. at 11'],
    ['{"inputs":[{"name":"INPUT0",', 'Missing a name for object member. at 28'],
    ['{"inputs":[{"name":"INPUT0"', 'Missing a comma or } after an object member. at 27'],
    ['{"inputs" []}', 'Missing a colon after a name of object member. at 10'],
    ['{"inputs":[1 2]}', 'Missing a comma or ] after an array element. at 13'],
    ['{"inputs":[1,]}', 'Invalid value. at 13'],
    ['{"inputs":[],}', 'Missing a name for object member. at 13'],
    ['{"a":tru}', 'Invalid value. at 5'],
    ['{"a":01}', 'Missing a comma or } after an object member. at 6'],
    ['{"a":1.}', 'Miss fraction part in number. at 7'],
    ['{"a":1e+}', 'Miss exponent in number. at 8'],
    ['{"a":.5}', 'Invalid value. at 5'],
    ['{"a":-}', 'Invalid value. at 5'],
    ['{"a":+1}', 'Invalid value. at 5'],
    ['{"id":1e999}', 'Number too big to be stored in double. at 6'],
    ['{"a":"b', 'Missing a closing quotation mark in string. at 7'],
    ['{"a":"\n"}', 'Invalid encoding in string. at 6'],
    ['{"a":"\\x"}', 'Invalid escape character in string. at 6'],
    ['{"a":"\\u12g4"}', 'Incorrect hex digit after \\u escape in string. at 6'],
    ['{"a":"\\ud800"}', 'The surrogate pair in string is invalid. at 6'],
    ['{"a":"\\ud800\\u0041"}', 'The surrogate pair in string is invalid. at 6'],
    ['{"a":"\\udc00"}', 'The surrogate pair in string is invalid. at 6'],
    ['{"ü":nul}', 'Invalid value. at 6'],
  ])('%j: %s', (text, why) => {
    expect(message(text)).toBe(PREFIX + why);
  });

  it.each(['null', '5', '"text"', '[1]', '{}'])('%s has no inputs', (text) => {
    expect(message(text)).toBe("Unable to parse 'inputs': attempt to access non-existing object member 'inputs'");
  });
});

describe('a name given twice', () => {
  it.each([
    '{"inputs":[],"inputs":[]}',
    '{"id":"a","id":"b","inputs":[]}',
    '{"a":1,"a":2,"inputs":[]}',
    '{"a":1,"\\u0061":2,"inputs":[]}',
    '{"inputs":[],"parameters":{"p":1,"p":2}}',
    '{"inputs":[{"name":"X","name":"Y"}]}',
    '{"inputs":[{"shape":[],"shape":[]}]}',
    '{"inputs":[{"data":[1],"data":[1]}]}',
    '{"inputs":[{"data":null,"data":[1]}]}',
    '{"inputs":[{"parameters":{},"parameters":{}}]}',
    '{"inputs":[{"parameters":{"binary_data_size":1,"binary_data_size":1}}]}',
    '{"inputs":[{"x":1,"x":1}]}',
    '{"inputs":[],"outputs":[{"name":"X","name":"X"}]}',
  ])('%s is refused', (text) => {
    expect(message(text)).toMatch(
      /^failed to parse the request JSON buffer: Object member '\w+' is given twice\. at \d+$/,
    );
  });
});

describe('bounds', () => {
  const deep = (depth: number) =>
    `{"inputs":[{"name":"X","shape":[1],"datatype":"FP32","data":${'['.repeat(depth)}1${']'.repeat(depth)}}]}`;
  const late = (depth: number) =>
    `{"inputs":[{"data":${'['.repeat(depth)}1${']'.repeat(depth)},"name":"X","shape":[1],"datatype":"FP32"}]}`;

  it('arrays may nest to the limit', () => {
    for (const depth of [1, 50, 100]) {
      expect(message(deep(depth))).toBe('accepted');
      expect(message(late(depth))).toBe('accepted');
    }
  });

  it.each([101, 100_000])('%i arrays are too deep', (depth) => {
    const error = /JSON nesting depth exceeds maximum allowed limit \(100\) at \d+$/;
    expect(message(deep(depth))).toMatch(error);
    expect(message(late(depth))).toMatch(error);
    expect(message('['.repeat(depth))).toMatch(error);
    expect(message(`{"a":${'{"b":'.repeat(depth)}`)).toMatch(error);
    expect(message(`{"id":${'['.repeat(depth)}`)).toMatch(error);
  });

  it('members, tensors and dimensions are counted', () => {
    const members = Array.from({ length: 5_000 }, (_, index) => `"k${index}":0`).join(',');
    expect(message(`{${members}}`)).toMatch(/More than 4096 members/);
    expect(message(`{"inputs":[],"parameters":{${members}}}`)).toMatch(/More than 4096 members/);
    expect(message(`{"inputs":[${'{},'.repeat(5_000)}{}]}`)).toBe("Unable to parse 'inputs': more than 4096 entries");
    expect(message(`{"inputs":[{"shape":[${'1,'.repeat(2_000)}1]}]}`)).toBe(
      "Unable to parse 'shape': more than 1024 dimensions",
    );
  });

  it('a very long integer takes linear time', () => {
    const cursor = jsonCursor(Buffer.from('9'.repeat(1_000_000)));
    expect(() => readScalar(cursor, 0)).toThrow(/Number too big/);
  });
});

describe('scalars', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740993', 9007199254740993n],
    ['-9007199254740993', -9007199254740993n],
    ['-0', -0],
    ['18446744073709551615', 18446744073709551615n],
    ['18446744073709551616', { double: 2 ** 64 }],
    ['1.0', { double: 1 }],
    ['-0.0', { double: -0 }],
    ['"a\\u00e9\\u20ac"', 'aé€'],
    ['"é€"', 'é€'],
  ])('%s', (text, value) => {
    const cursor = jsonCursor(Buffer.from(text));
    const read = readScalar(cursor, 0);
    expectEnd(cursor);
    expect(read).toEqual(value);
    const skipped = jsonCursor(Buffer.from(text));
    skipValue(skipped, 0);
    expectEnd(skipped);
  });

  it('are the same in a document too long for a string', () => {
    const cursor = jsonCursor(Buffer.from(`"é${' '.repeat(100_000)}"`));
    expect(cursor.text).toBe('');
    expect(readScalar(cursor, 0)).toBe(`é${' '.repeat(100_000)}`);
  });
});
