import { expect, it } from 'vitest';
import { type DesiredState, decodeDesiredState, encodeDesiredState, setupDifference } from './desired-state.ts';
import { decodeOverride, encodeOverride, overrideUploads } from './override-ref.ts';

const SETUP = { controlMode: 'explicit', repositories: ['models', 'more'], namespacing: false } as const;
const STATE: DesiredState = {
  ...SETUP,
  models: {
    a: {},
    b: { implicit: true },
    c: { override: { config: 'x', files: { '1/model.onnx': 'y' } } },
    d: { override: { config: 'x' }, files: 'signature' },
    e: { unloaded: true },
  },
};

it('a state comes back as it was written', () => {
  expect(decodeDesiredState(encodeDesiredState(STATE))).toStrictEqual(STATE);
  expect(decodeDesiredState(encodeDesiredState(SETUP))).toStrictEqual(SETUP);
});

it.each([undefined, '', '{', '[]', '{"controlMode":"other"}'])('%j is none', (text) => {
  expect(decodeDesiredState(text)).toBeUndefined();
});

it.each([
  [{}, undefined],
  [{ controlMode: 'none' }, "--model-control-mode is 'none' here and 'explicit' in the cluster"],
  [{ repositories: ['models'] }, "--model-repository is 'models' here and 'models, more' in the cluster"],
  [{ repositories: ['more', 'models'] }, "--model-repository is 'more, models' here and 'models, more' in the cluster"],
  [{ namespacing: true }, "--model-namespacing is 'true' here and 'false' in the cluster"],
] as const)('a process with %j differs by %s', (own, told) => {
  const difference = setupDifference(STATE, { ...SETUP, ...own });
  if (told === undefined) expect(difference).toBeUndefined();
  else expect(difference).toContain(told);
});

it('an override has one text, whatever the order of its files', () => {
  const one = encodeOverride({ config: 'c', files: { b: '2', a: '1' } });
  expect(one).toBe(encodeOverride({ files: { a: '1', b: '2' }, config: 'c' }));
  expect(decodeOverride(one)).toEqual({ config: 'c', files: { a: '1', b: '2' } });
  expect(overrideUploads({ config: 'c', files: { a: '1', b: '2' } })).toEqual(['c', '1', '2']);
  expect([decodeOverride(''), decodeOverride('{'), decodeOverride('{"files":1}')]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
