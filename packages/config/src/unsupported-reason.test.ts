import { describe, expect, test } from 'vitest';
import { completeModelConfig } from './complete-model-config.ts';
import { parseModelConfig } from './parse-model-config.ts';
import { unsupportedReason } from './unsupported-reason.ts';

function reason(text: string): string | undefined {
  const files = [{ name: 'model.onnx', directory: false }];
  return unsupportedReason(completeModelConfig(parseModelConfig(text, 'c'), { name: 'm', files, gpus: 0 }));
}

describe('not served yet', () => {
  test.each([
    ['backend: "python"', `the backend 'python'`],
    [
      'model_transaction_policy { decoupled: true }',
      "model_transaction_policy.decoupled with the backend 'onnxruntime'",
    ],
    [
      'cc_model_filenames { key: "7.5" value: "x" } instance_group { kind: KIND_GPU }',
      'cc_model_filenames with instances of KIND_GPU',
    ],
  ])('%s', (text, what) => {
    expect(reason(text)).toBe(`${what} is not served by this version of Nereid`);
  });
});

describe('served', () => {
  test.each([
    '',
    'backend: "javascript"',
    'cc_model_filenames { key: "7.5" value: "x" }',
    'dynamic_batching { preferred_batch_size: 4 max_queue_delay_microseconds: 100 }',
    'dynamic_batching { default_queue_policy { max_queue_size: 2 } }',
    'dynamic_batching { default_queue_policy { allow_timeout_override: true timeout_action: DELAY } }',
    'dynamic_batching { priority_levels: 3 default_priority_level: 2 }',
    'dynamic_batching { default_queue_policy { default_timeout_microseconds: 2 } }',
    'dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 1 } } }',
    'sequence_batching { }',
    'response_cache { enable: true }',
    'model_warmup { batch_size: 1 }',
    'platform: "ensemble" ensemble_scheduling { }',
    'platform: "ensemble" ensemble_scheduling { } model_transaction_policy { decoupled: true }',
    'model_repository_agents { agents { name: "checksum" } }',
    'input { optional: true }',
    'input { allow_ragged_batch: true } batch_input { } batch_output { }',
    'instance_group { rate_limiter { priority: 2 } }',
    'model_transaction_policy { decoupled: false }',
    'backend: "javascript" model_transaction_policy { decoupled: true }',
  ])('%s', (text) => {
    expect(reason(text)).toBeUndefined();
  });
});
