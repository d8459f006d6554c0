import type { Alias, ModelSignature } from '@nereid/config';
import { type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { pointOf, versionAt } from './alias-choice.ts';
import { aliasRoute, routedRequest } from './alias-route.ts';
import { createAliasedSequences } from './aliased-sequences.ts';

const weighted = (...weights: number[]) => weights.map((weight, index) => ({ version: String(index + 1), weight }));
const alias = (...weights: number[]): Alias => ({ name: 'a', model: 'm', versions: weighted(...weights) });
const request = (more: Partial<InferRequest> = {}): InferRequest => ({
  ...REQUEST_DEFAULTS,
  modelName: 'a',
  inputs: [],
  ...more,
});
const SEQUENCES = { sequence: { iterative: false } } as Pick<ModelSignature, 'sequence'>;
const NONE = { sequence: undefined };
let tokens = 0;
const token = () => `m${++tokens}`;

describe('the version at a point', () => {
  it.each([
    [[1], 0, '1'],
    [[1], 0.999_999, '1'],
    [[1, 1], 0.499, '1'],
    [[1, 1], 0.5, '2'],
    [[0, 1], 0, '2'],
    [[1, 0], 0.999_999, '1'],
    [[95, 5], 0.949, '1'],
    [[95, 5], 0.951, '2'],
    [[0.5, 0.25, 0.25], 0.76, '3'],
    [[1, 0, 1], 0.5, '3'],
  ])('weights %j at %d: %s', (weights, point, version) => {
    expect(versionAt(weighted(...weights), point)).toBe(version);
  });

  it('ids that count up part as the weights do, and a changed weight moves no more than its part', () => {
    const points = Array.from({ length: 10_000 }, (_, index) => pointOf(`a\nrrequest-${index}`));
    const second = (weights: number[]) => points.map((point) => versionAt(weighted(...weights), point) === '2');
    const [few, more] = [second([95, 5]), second([90, 10])];
    expect(few.filter(Boolean).length).toBeGreaterThan(400);
    expect(few.filter(Boolean).length).toBeLessThan(600);
    expect(few.every((is, index) => !is || more[index])).toBe(true);
    expect(more.filter(Boolean).length).toBeLessThan(1_150);
  });
});

describe('what belongs together goes together', () => {
  const versionOf = (more: Partial<InferRequest>, signature: Pick<ModelSignature, 'sequence'> = NONE) =>
    aliasRoute(alias(1, 1), signature, request(more), token).version;
  const ids = Array.from({ length: 40 }, (_, index) => index + 1);

  it.each<[string, (id: number) => Partial<InferRequest>]>([
    ['by the correlation id', (id) => ({ correlationId: BigInt(id) })],
    ['by the correlation id before the request id', (id) => ({ correlationId: `${id}`, id: token() })],
    ['by the request id', (id) => ({ id: `${id}` })],
  ])('%s', (_rule, named) => {
    for (const id of ids) expect(versionOf(named(id))).toBe(versionOf(named(id)));
    expect(new Set(ids.map((id) => versionOf(named(id)))).size).toBe(2);
  });

  it('requests without either are parted too', () => {
    expect(new Set(ids.map(() => versionOf({}))).size).toBe(2);
  });
});

it.each<[string, Pick<ModelSignature, 'sequence'>, Partial<InferRequest>, string]>([
  ['a request', NONE, {}, '2'],
  ['one that names its version', NONE, { modelVersion: '1' }, '1'],
  ['a correlation id where no sequences are kept', NONE, { correlationId: 5n }, '2'],
  ['a START', SEQUENCES, { correlationId: 5n, sequenceStart: true }, '~2'],
  ['a later step', SEQUENCES, { correlationId: 5n }, '~2'],
  ['a step that names its version', SEQUENCES, { correlationId: 5n, modelVersion: '1' }, '1'],
  ['one of an iterative model', { sequence: { iterative: true } } as typeof SEQUENCES, { correlationId: 5n }, '2'],
])('the model is asked for %s', (_what, signature, more, version) => {
  const asked = request(more);
  const route = aliasRoute(alias(0, 1), signature, asked, token);
  expect(routedRequest(asked, route)).toEqual({ ...asked, modelName: 'm', modelVersion: version });
});

it('a sequence is followed from its START to its END, and the one asked for longest ago is forgotten first', () => {
  const sequences = createAliasedSequences(2);
  const versionOf = (of: Alias, correlationId: bigint, more: Partial<InferRequest> = {}) => {
    const asked = request({ correlationId, ...more });
    return sequences.follow(aliasRoute(of, SEQUENCES, asked, token), asked).version;
  };
  expect(versionOf(alias(1, 0), 1n, { sequenceStart: true })).toBe('1');
  expect(versionOf(alias(0, 1), 1n)).toBe('1');
  expect(versionOf(alias(0, 1), 1n, { modelVersion: '2' })).toBe('2');
  expect(versionOf(alias(0, 1), 1n, { sequenceEnd: true })).toBe('1');
  expect([versionOf(alias(0, 1), 1n), sequences.size]).toEqual(['2', 1]);
  for (const id of [2n, 3n]) expect(versionOf(alias(1, 0), id, { sequenceStart: true })).toBe('1');
  expect(sequences.size).toBe(2);
  expect(versionOf(alias(1, 0), 1n)).toBe('1');
  expect([versionOf(alias(0, 1), 3n), versionOf(alias(0, 1), 2n)]).toEqual(['1', '2']);
});
