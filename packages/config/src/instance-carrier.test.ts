import { describe, expect, test } from 'vitest';
import { carrierKind, carrierSettings } from './instance-carrier.ts';
import { parseModelConfig } from './parse-model-config.ts';

const settings = (parameters: Readonly<Record<string, string>>) => {
  const text = Object.entries(parameters).map(
    ([key, value]) => `parameters { key: "nereid.${key}" value { string_value: "${value}" } }`,
  );
  return carrierSettings(parseModelConfig(`name: "m" ${text.join('\n')}`, 'config.pbtxt'));
};

describe('what carries an instance', () => {
  test.each([
    ['nothing is said', {}, false, 'thread'],
    ['auto', { carrier: 'auto' }, false, 'thread'],
    ['auto, and another command starts it', { carrier: 'auto' }, true, 'process'],
    ['auto, and executions have a time-out', { execution_timeout_ms: '500' }, false, 'process'],
    ['thread', { carrier: 'thread' }, false, 'thread'],
    ['thread is never overruled', { carrier: 'thread' }, true, 'thread'],
    ['process', { carrier: 'process' }, false, 'process'],
  ])('%s', (_rule, parameters, launched, kind) => {
    expect(carrierKind(settings(parameters), launched)).toBe(kind);
  });

  test('the time-out is read', () => {
    expect(settings({ execution_timeout_ms: '500' }).executionTimeoutMs).toBe(500);
    expect(settings({}).executionTimeoutMs).toBeUndefined();
  });
});

describe('parameters that cannot be', () => {
  test.each([
    [{ carrier: 'proces' }, "parameter 'nereid.carrier' of model m must be one of auto, thread, process, got 'proces'"],
    [{ carrier: '' }, "parameter 'nereid.carrier' of model m must be one of auto, thread, process, got ''"],
    ...['0', '-1', '1.5', '1e3', ' 5', '', '2147483648'].map((value): [Record<string, string>, string] => [
      { execution_timeout_ms: value },
      `parameter 'nereid.execution_timeout_ms' of model m must be a whole number of milliseconds from 1 to 2147483647, got '${value}'`,
    ]),
    [
      { carrier: 'thread', execution_timeout_ms: '500' },
      "parameter 'nereid.execution_timeout_ms' of model m needs instances in processes, since a run inside a thread cannot be ended; leave 'nereid.carrier' out or set it to process",
    ],
  ])('%o', (parameters, text) => {
    expect(() => settings(parameters)).toThrowError(expect.objectContaining({ code: 'INVALID_ARG', message: text }));
  });
});
