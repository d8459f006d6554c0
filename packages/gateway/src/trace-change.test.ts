import { describe, expect, it } from 'vitest';
import { readTraceChange } from './trace-change.ts';

type Given = Readonly<Record<string, string | readonly string[] | null>>;

const read = (given: Given) =>
  readTraceChange({
    has: (name) => Object.hasOwn(given, name),
    levels: (name) => given[name] as readonly string[] | null | undefined,
    text: (name) => given[name] as string | null | undefined,
  });

describe('a change of trace settings', () => {
  it.each<[string, Given, object]>([
    ['nothing', {}, {}],
    ['an unknown name', { colour: 'red' }, {}],
    [
      'levels, in their own order',
      { trace_level: ['TENSORS', 'TIMESTAMPS', 'TENSORS'] },
      { levels: ['TIMESTAMPS', 'TENSORS'] },
    ],
    ['OFF', { trace_level: ['OFF'] }, { levels: [] }],
    ['no level', { trace_level: [] }, {}],
    ['no level that there is', { trace_level: ['LOUD', 'timestamps'] }, {}],
    ['one level among others', { trace_level: ['LOUD', 'TENSORS'] }, { levels: ['TENSORS'] }],
    ['numbers', { trace_rate: '5', trace_count: '-1', log_frequency: '+50' }, { rate: 5, count: -1, logFrequency: 50 }],
    ['the greatest', { trace_rate: '4294967295', trace_count: '2147483647' }, { rate: 4294967295, count: 2147483647 }],
    [
      'nulls',
      { trace_level: null, trace_rate: null, trace_count: null, log_frequency: null },
      { levels: null, rate: null, count: null, logFrequency: null },
    ],
  ])('%s', (_rule, given, change) => {
    expect(read(given)).toEqual(change);
  });

  it.each<[Given, string, string]>([
    [
      { trace_file: 'f', trace_rate: 'x' },
      'UNSUPPORTED',
      'trace file location can not be updated through network protocol',
    ],
    [{ trace_file: null }, 'UNSUPPORTED', 'trace file location can not be updated through network protocol'],
    [{ trace_level: ['OFF', 'OFF'] }, 'INVALID_ARG', "Expect only one trace level 'OFF' is specified"],
    [{ trace_level: ['TENSORS', 'OFF'] }, 'INVALID_ARG', "Expect only one trace level 'OFF' is specified"],
    [{ trace_rate: 'many' }, 'INVALID_ARG', "Unable to parse 'trace_rate', got: many"],
    [{ trace_rate: '5x' }, 'INVALID_ARG', "Unable to parse 'trace_rate', got: 5x"],
    [{ trace_rate: '' }, 'INVALID_ARG', "Unable to parse 'trace_rate', got: "],
    [
      { trace_rate: '99999999999999999999' },
      'INVALID_ARG',
      "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: 99999999999999999999",
    ],
    [
      { trace_rate: '-1' },
      'INVALID_ARG',
      "Unable to parse 'trace_rate', value is out of range [ 0, 4294967295 ], got: -1",
    ],
    [{ trace_count: '-2' }, 'INVALID_ARG', "Unable to parse 'trace_count'. Expecting value >= -1, got:-2"],
    [
      { trace_count: '-99999999999' },
      'INVALID_ARG',
      "Unable to parse 'trace_count', value is out of range [ -1, 2147483647 ], got: -99999999999",
    ],
    [{ log_frequency: '1.5' }, 'INVALID_ARG', "Unable to parse 'log_frequency', got: 1.5"],
    [{ trace_rate: '1', trace_count: 'many' }, 'INVALID_ARG', "Unable to parse 'trace_count', got: many"],
  ])('%j is refused', (given, code, message) => {
    expect(() => read(given)).toThrow(expect.objectContaining({ code, message }));
  });
});
