import { describe, expect, test } from 'vitest';
import { configPosition } from './config-positions.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { parseModelConfigJson } from './parse-model-config-json.ts';

const PBTXT = `\uFEFFname: "m" # input
max_batch_size: - 4
input [
  { name: "A" "B" dims: [ 1,
    0 ] },
  { name: "C" dims: 2 dims: 3 }
]
input < name: "D"; reshape: < shape: 7 > >
parameters { key: "a.b[0]" value { string_value: "x" } }
parameters: [ { value: { string_value: "y" }, key: 'z' } ]
dynamic_batching {
  priority_queue_policy { key: 2 value { max_queue_size: 3 } }
}
metric_tags { key: "t" value: "u" }
instance_group [ ] version_policy { }`;

const JSON_TEXT = `{"maxBatchSize": 4,
 "input": [ {"name": "A", "dims": [1,
   0]}, {"reshape": {"shape": [7]}} ],
 "parameters": {"a.b[0]": {"string_value": "x"}}}`;

describe('pbtxt', () => {
  test.each([
    ['a scalar', 'name', '1:7'],
    ['a sign apart', 'max_batch_size', '2:17'],
    ['a repeated field', 'input', '3:1'],
    ['an element of a list', 'input[1]', '6:3'],
    ['one that is named again', 'input[2]', '8:1'],
    ['a list within', 'input[0].dims', '4:19'],
    ['an element of it', 'input[0].dims[1]', '5:5'],
    ['an element of a field that is named twice', 'input[1].dims[1]', '6:29'],
    ['within angle brackets', 'input[2].reshape.shape[0]', '8:38'],
    ['an entry of a map, and a key like a path', 'parameters["a.b[0]"]', '9:1'],
    ['a field of its value', 'parameters["a.b[0]"].string_value', '9:50'],
    ['an entry with its key last', 'parameters["z"].string_value', '10:40'],
    ['a key that is a number', 'dynamic_batching.priority_queue_policy["2"].max_queue_size', '12:58'],
    ['an entry without a message', 'metric_tags["t"]', '14:1'],
    ['what is missing, by what it is missing in', 'input[1].data_type', '6:3'],
    ['an element that is not there', 'input[2].dims[4]', '8:1'],
    ['an entry that is not there', 'parameters["q"].string_value', '9:1'],
    ['an empty list', 'instance_group[0]', '15:1'],
    ['an empty message', 'version_policy.specific', '15:20'],
  ])('%s', (_name, path, expected) => {
    expect(configPosition({ source: 's', text: PBTXT, form: 'pbtxt' }, path)).toBe(expected);
  });

  test('what is not there at all', () => {
    expect(configPosition({ source: 's', text: PBTXT, form: 'pbtxt' }, 'output[0].dims')).toBeUndefined();
  });

  test('the text is one that can be read', () => {
    expect(parseModelConfig(PBTXT, 's').input.length).toBe(3);
  });
});

describe('JSON', () => {
  test.each([
    ['a scalar in camelCase', 'max_batch_size', '1:18'],
    ['an element', 'input[1]', '3:9'],
    ['an element within', 'input[0].dims[1]', '3:4'],
    ['a field within', 'input[1].reshape.shape', '3:22'],
    ['an entry of a map', 'parameters["a.b[0]"].string_value', '4:44'],
    ['what is missing', 'input[1].dims', '3:9'],
  ])('%s', (_name, path, expected) => {
    expect(configPosition({ source: 's', text: JSON_TEXT, form: 'json' }, path)).toBe(expected);
  });

  test('the text is one that can be read', () => {
    expect(parseModelConfigJson(JSON_TEXT, 's').input.length).toBe(2);
  });
});
