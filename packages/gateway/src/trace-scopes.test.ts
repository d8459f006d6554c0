import { NO_TRACES, type TraceConfig } from '@nereid/config';
import { describe, expect, it } from 'vitest';
import {
  changedScopes,
  decodeScopes,
  encodeScopes,
  type TraceChange,
  type TraceScopes,
  takenScopes,
  traceState,
  wrongTraces,
} from './trace-scopes.ts';

const NONE = decodeScopes(undefined);
const START: TraceConfig = { ...NO_TRACES, file: 'f', rate: 1000, count: 10 };

type Changes = readonly (readonly [model: string, change: TraceChange])[];

const after = (...changes: Changes) =>
  changes.reduce<TraceScopes>((scopes, [model, change]) => changedScopes(scopes, model, change), NONE);

const stateOf = (scopes: TraceScopes, model: string) => {
  const { levels, rate, count, logFrequency } = traceState(START, scopes, model);
  return { levels, rate, count, logFrequency };
};

const BEGIN = { levels: [], rate: 1000, count: 10, logFrequency: 0 };

describe('what holds', () => {
  it.each<[string, Changes, object, object]>([
    ['without a change: the start', [], BEGIN, BEGIN],
    ['what is set for all holds for each model', [['', { rate: 5 }]], { ...BEGIN, rate: 5 }, { ...BEGIN, rate: 5 }],
    ['what is set for a model holds for it alone', [['m', { rate: 7 }]], BEGIN, { ...BEGIN, rate: 7 }],
    [
      'a change for all spares what the model has of its own, and no other field',
      [
        ['m', { rate: 7 }],
        ['', { rate: 9, logFrequency: 4, levels: ['TENSORS'] }],
      ],
      { levels: ['TENSORS'], rate: 9, count: 10, logFrequency: 4 },
      { levels: ['TENSORS'], rate: 7, count: 10, logFrequency: 4 },
    ],
    [
      'a cleared field falls back',
      [
        ['', { rate: 9 }],
        ['m', { rate: 7, count: 3 }],
        ['m', { rate: null }],
        ['', { rate: null }],
      ],
      BEGIN,
      { ...BEGIN, count: 3 },
    ],
    [
      'OFF for one model',
      [
        ['', { levels: ['TIMESTAMPS'] }],
        ['m', { levels: [] }],
      ],
      { ...BEGIN, levels: ['TIMESTAMPS'] },
      BEGIN,
    ],
  ])('%s', (_rule, changes, all, model) => {
    const scopes = after(...changes);
    expect([stateOf(scopes, ''), stateOf(scopes, 'other'), stateOf(scopes, 'm')]).toEqual([all, all, model]);
    expect(decodeScopes(encodeScopes(scopes))).toEqual(scopes);
  });

  it('a model in which nothing is set any more has no scope', () => {
    expect(after(['m', { rate: 7 }], ['m', { rate: null }]).models.size).toBe(0);
  });
});

describe('the count', () => {
  const countOf = (scopes: TraceScopes, model: string) => traceState(START, scopes, model).count;
  const take = (scopes: TraceScopes, model: string, count: number) =>
    takenScopes(START, scopes, model, traceState(START, scopes, model).counting, count);

  it('of all models goes down by the requests of those without settings of their own', () => {
    const scopes = take(after(['m', { count: 5 }]), '', 3);
    expect([countOf(scopes, ''), countOf(scopes, 'other'), countOf(scopes, 'm')]).toEqual([7, 7, 5]);
  });

  it('of a model goes down by its own, and not below 0', () => {
    const scopes = take(after(['m', { count: 5 }]), 'm', 9);
    expect([countOf(scopes, ''), countOf(scopes, 'm')]).toEqual([10, 0]);
  });

  it('without an end stays', () => {
    expect(countOf(take(after(['', { count: -1 }]), '', 3), '')).toBe(-1);
  });

  it('goes on where it was after another setting changed, and begins anew when it is set itself', () => {
    const scopes = take(after(['', { count: 5 }]), '', 2);
    expect(countOf(changedScopes(scopes, '', { rate: 1 }), '')).toBe(3);
    expect(countOf(changedScopes(scopes, '', { count: 5 }), '')).toBe(5);
    expect(countOf(changedScopes(scopes, '', { count: null }), '')).toBe(10);
  });

  it('is not touched by requests that were counted before it was set', () => {
    const before = after(['', { count: 5 }]);
    const { counting } = traceState(START, before, '');
    const scopes = changedScopes(before, '', { count: 8 });
    expect(takenScopes(START, scopes, '', counting, 3)).toBe(scopes);
  });
});

describe('settings that cannot be', () => {
  const ON: TraceChange = { levels: ['TIMESTAMPS'] };
  it.each<[string, TraceConfig, Changes, string | undefined]>([
    ['no file', NO_TRACES, [['', ON]], 'trace file name is not given'],
    ['no file for a model', NO_TRACES, [['m', ON]], 'trace file name is not given'],
    ['no file, and nothing traced', NO_TRACES, [['', { rate: 0 }]], undefined],
    ['no file is needed elsewhere', { ...NO_TRACES, mode: 'opentelemetry' }, [['', ON]], undefined],
    ['a rate of 0', START, [['', { ...ON, rate: 0 }]], 'sample rate must be non-zero'],
    [
      'a rate of 0 that a model falls back on',
      START,
      [
        ['m', ON],
        ['', { rate: 0 }],
      ],
      'sample rate must be non-zero',
    ],
    ['all that is needed', START, [['', ON]], undefined],
    ['a count of 0', START, [['', { ...ON, count: 0 }]], undefined],
  ])('%s', (_rule, start, changes, why) => {
    const text = why === undefined ? undefined : `Attempting to set invalid trace setting :${why}`;
    expect(wrongTraces(start, after(...changes))).toBe(text);
  });
});

it('what another build has written is read as far as it can be', () => {
  const text = '{"all":{"rate":"x","count":3,"levels":["LOUD","TENSORS"]},"models":{"m":7},"colour":1}';
  expect(decodeScopes(text)).toEqual({
    all: { count: 3, levels: ['TENSORS'], changes: 0, taken: 0 },
    models: new Map([['m', { changes: 0, taken: 0 }]]),
  });
});
