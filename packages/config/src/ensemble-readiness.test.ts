import { expect, test } from 'vitest';
import { ensembleReadiness } from './ensemble-readiness.ts';
import { ensembleConfig, knownModels, modelConfig, recordOf, throughStep, VECTOR } from './fixture-ensemble.ts';
import type { VersionRecord } from './model-record.ts';

const ready = (version: string): VersionRecord => ({ version, state: 'READY', reason: '' });
const down = (version: string, reason: string): VersionRecord => ({ version, state: 'UNAVAILABLE', reason });

function reason(versions: readonly VersionRecord[], wanted?: bigint): string | undefined {
  const config = modelConfig('m', `backend: "javascript" ${VECTOR}`);
  return ensembleReadiness(ensembleConfig('e', throughStep('m', wanted)), knownModels(recordOf(config, { versions })));
}

// Texts of Triton 2.51.0, with a hint of ours for version 0.
test.each([
  ['any version', [ready('1')], undefined, undefined],
  ['one of several', [down('1', 'Internal: no'), ready('2')], undefined, undefined],
  ['the version that is wanted', [ready('2'), ready('3')], 2n, undefined],
  ['another version', [ready('1')], 3n, "ensemble 'e' depends on 'm' whose required version 3 is not loaded."],
  [
    'version 0, as where model_version is left out',
    [ready('1')],
    0n,
    "ensemble 'e' depends on 'm' whose required version 0 is not loaded. " +
      'A model_version that is left out is 0: write model_version: -1 for the greatest version.',
  ],
  ['no version', [], undefined, "ensemble 'e' depends on 'm' which has no loaded version."],
  ['unloaded', [down('1', 'unloaded')], undefined, "ensemble 'e' depends on 'm' which has no loaded version."],
  [
    'loading',
    [{ version: '1', state: 'LOADING', reason: '' } as const],
    undefined,
    "ensemble 'e' depends on 'm' which has no loaded version.",
  ],
  [
    'failed',
    [down('1', 'Internal: no'), down('2', 'Internal: never')],
    undefined,
    "ensemble 'e' depends on 'm' which has no loaded version. Model 'm' loading failed with error: " +
      'version 1 is at UNAVAILABLE state: Internal: no;\nversion 2 is at UNAVAILABLE state: Internal: never;',
  ],
])('%s', (_name, versions, wanted, text) => {
  expect(reason(versions, wanted)).toBe(text);
});

test('a model of which nothing is known is for the checks of the graph', () => {
  expect(ensembleReadiness(ensembleConfig('e', throughStep('nope')), () => undefined)).toBeUndefined();
});

test('any other model is ready by itself', () => {
  expect(ensembleReadiness(modelConfig('m', 'backend: "javascript"'), () => undefined)).toBeUndefined();
});
