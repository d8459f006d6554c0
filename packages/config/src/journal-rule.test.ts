import { describe, expect, test } from 'vitest';
import { checkModelConfig } from './check-model-config.ts';
import { journalRule, journalShare } from './journal-rule.ts';
import { readJournalConfig } from './options-journal.ts';
import { parseModelConfig } from './parse-model-config.ts';

const config = (parameters: Readonly<Record<string, string>>) =>
  parseModelConfig(
    `
name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" max_batch_size: 4
input { name: "A" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "B" data_type: TYPE_FP32 dims: [ 1 ] }
${Object.entries(parameters)
  .map(([key, value]) => `parameters { key: "${key}" value { string_value: "${value}" } }`)
  .join('\n')}`,
    'config.pbtxt',
  );
const checked = (parameters: Readonly<Record<string, string>>) => () =>
  checkModelConfig(config(parameters), { name: 'm', gpus: 0, withoutInstances: true });

describe('what of a model is recorded', () => {
  test.each([
    ['off', 0],
    ['on', 1],
    ['sample:0.25', 0.25],
    ['sample:1', 1],
    ['sample:.5', 0.5],
    ['sample:1.5', undefined],
    ['sample:-1', undefined],
    ['sample:', undefined],
    ['ON', undefined],
  ])("'%s' is a share of %s", (text, share) => {
    expect(journalShare(text)).toBe(share);
  });

  test('is said by its config, with what is left out', () => {
    const rule = journalRule(config({ 'nereid.journal': 'on', 'nereid.journal_redact': 'A, B' }));
    expect(rule).toEqual({ share: 1, redact: new Set(['A', 'B']) });
    expect(journalRule(config({}))).toEqual({ share: undefined, redact: new Set() });
  });

  test('is refused where its config says none', () => {
    expect(checked({ 'nereid.journal': 'sample:2' })).toThrow(
      "parameter 'nereid.journal' for m must be 'off', 'on' or 'sample:p' with p from 0 to 1, e.g. 'sample:0.01', not 'sample:2'",
    );
  });

  test('leaves out no tensor that there is not: what was meant would be recorded', () => {
    expect(checked({ 'nereid.journal_redact': 'A,C' })).toThrow("it has no tensor 'C'; its tensors are A, B");
    expect(checked({ 'nereid.journal_redact': 'A,B' })).not.toThrow();
  });
});

describe('--journal-config', () => {
  const read = (...journalConfig: string[]) => readJournalConfig({ journal: 'sample:0.5', journalConfig });

  test('sets bounds, the last of each key', () => {
    const settings = read('steps=5', 'age_s=60', 'steps=7', 'output_bytes=0');
    expect(settings).toMatchObject({ ok: true, value: { share: 0.5, steps: 7, age_s: 60, output_bytes: 0 } });
  });

  test.each([
    ['step=5', "there is no key 'step': did you mean steps?"],
    ['steps', "steps: '' is not allowed: give a whole number from 1"],
    ['steps=0', "steps: '0' is not allowed: give a whole number from 1"],
    ['bytes=1.5', "bytes: '1.5' is not allowed: give a whole number from 1"],
  ])('%s is refused', (text, why) => {
    expect(read(text)).toEqual({ ok: false, error: `--journal-config: ${why}` });
  });
});
