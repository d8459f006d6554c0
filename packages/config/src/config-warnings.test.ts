import { expect, test } from 'vitest';
import { configWarnings } from './config-warnings.ts';
import { parseModelConfig } from './parse-model-config.ts';

test.each([
  ['nothing', 'backend: "x" max_batch_size: 2 dynamic_batching { } optimization { graph { level: 1 } }', []],
  ['runtime', 'runtime: "x.so"', ['runtime']],
  ['cc_model_filenames', 'cc_model_filenames { key: "7.5" value: "x" }', ['cc_model_filenames']],
  ['model_operations', 'model_operations { op_library_filename: "x" }', ['model_operations']],
  ['model_metrics', 'model_metrics { metric_control { } }', ['model_metrics']],
  [
    'optimization',
    'optimization { priority: PRIORITY_MAX cuda { } gather_kernel_buffer_threshold: 1 eager_batching: true }',
    [
      'optimization.priority',
      'optimization.cuda',
      'optimization.gather_kernel_buffer_threshold',
      'optimization.eager_batching',
    ],
  ],
  ['secondary_devices', 'instance_group [ { }, { secondary_devices { } } ]', ['instance_group[1].secondary_devices']],
  ['batching without rows', 'dynamic_batching { }', ['dynamic_batching']],
])('%s', (_name, text, fields) => {
  expect(configWarnings(parseModelConfig(text, 'c')).map(({ field }) => field)).toEqual(fields);
});
