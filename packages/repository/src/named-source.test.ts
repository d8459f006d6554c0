import { type ModelSource, parseModelConfig } from '@nereid/config';
import { expect, test } from 'vitest';
import { namedSource } from './named-source.ts';

const source = (text: string): ModelSource => ({
  name: 'm',
  directory: '/srv/b/m',
  config: parseModelConfig(`name: "m" ${text}`, 'config.pbtxt'),
  labels: {},
  versions: ['1'],
  contentHash: 'hash',
});
const ENSEMBLE = 'platform: "ensemble" ensemble_scheduling { step [ { model_name: "x" }, { model_name: "y" } ] }';
const stepName = (step: string) => (step === 'x' ? 'b::x' : step);

test("a model of its folder's name is as it was read", () => {
  const read = source('backend: "javascript"');
  expect(namedSource(read, 'm', stepName)).toBe(read);
  const ensemble = source(ENSEMBLE);
  expect(namedSource(ensemble, 'm', (step) => step)).toBe(ensemble);
});

test('one with a namespace has it in its config too', () => {
  const read = source('backend: "javascript"');
  expect(namedSource(read, 'b::m', stepName)).toMatchObject({
    name: 'b::m',
    directory: '/srv/b/m',
    config: { name: 'b::m', backend: 'javascript' },
    contentHash: 'hash',
  });
  expect(read.config.name).toBe('m');
});

test('the steps of an ensemble name the models that they mean, which count as its files do', () => {
  const read = source(ENSEMBLE);
  const named = namedSource(read, 'm', stepName);
  expect(named.config.schedulingChoice).toMatchObject({
    value: { step: [{ modelName: 'b::x' }, { modelName: 'y' }] },
  });
  expect(named.contentHash).not.toBe('hash');
  expect(namedSource(read, 'm', (step) => `c::${step}`).contentHash).not.toBe(named.contentHash);
});
