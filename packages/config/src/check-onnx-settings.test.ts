import { expect, test } from 'vitest';
import { checkModelConfig } from './check-model-config.ts';
import { completeModelConfig } from './complete-model-config.ts';
import { parseModelConfig } from './parse-model-config.ts';

function outcome(text: string): unknown {
  const config = completeModelConfig(parseModelConfig(text, 'c'), { name: 'm', files: undefined, gpus: 0 });
  try {
    checkModelConfig(config, { name: 'm', gpus: 0, withoutTensors: true });
    return 'accepted';
  } catch (error) {
    return error;
  }
}
const threads = (count: string, backend = 'onnxruntime') =>
  `backend: "${backend}" parameters { key: "intra_op_thread_count" value { string_value: "${count}" } }`;

test.each([
  ['a level', 'backend: "onnxruntime" optimization { graph { level: -1 } }'],
  ['threads', threads('0')],
  ['another backend, whose parameters are its own', threads('many', 'javascript')],
])('accepted: %s', (_name, text) => {
  expect(outcome(text)).toBe('accepted');
});

test.each([
  [
    'an unknown level',
    'backend: "onnxruntime" optimization { graph { level: 3 } }',
    'optimization.graph.level',
    "model 'm' has optimization.graph.level 3; -1, 0, 1 and 2 are known",
  ],
  [
    'no number of threads',
    threads('many'),
    'parameters["intra_op_thread_count"]',
    "model 'm': parameter 'intra_op_thread_count' must be a whole number from 0 to 9999, got 'many'",
  ],
])('refused: %s', (_name, text, field, message) => {
  expect(outcome(text)).toMatchObject({ code: 'INVALID_ARG', field, message });
});
