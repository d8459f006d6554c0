import { describe, expect, test } from 'vitest';
import type { Device } from './backend.ts';
import { textLoad } from './fixture-load.ts';
import { sessionOptions } from './onnx-options.ts';

const CPU: Device = { kind: 'cpu', id: 0 };
const GPU: Device = { kind: 'gpu', id: 3 };
const MODEL: Device = { kind: 'model', id: 0 };

const accelerators = (text: string) => `optimization { execution_accelerators { ${text} } }`;
const TENSORRT = accelerators('gpu_execution_accelerator { name: "tensorrt" }');

function options(device: Device, config = '') {
  return sessionOptions({ ...textLoad('/models/m', `name: "m" backend: "onnxruntime" ${config}`), device });
}

describe('execution providers', () => {
  test.each<[string, Device, string, unknown[]]>([
    ['the CPU alone on the CPU', CPU, '', ['cpu']],
    ['CUDA by the id of the GPU, then the CPU for what CUDA has no kernel for', GPU, '', [cuda(3), 'cpu']],
    ['the CPU where the backend decides (KIND_MODEL)', MODEL, '', ['cpu']],
    ['TensorRT before CUDA, on the same GPU', GPU, TENSORRT, [{ name: 'tensorrt', deviceId: 3 }, cuda(3), 'cpu']],
    [
      'CUDA once where it is asked for by name',
      GPU,
      accelerators('gpu_execution_accelerator { name: "cuda" }'),
      [cuda(3), 'cpu'],
    ],
    ['those of GPUs on GPUs only', CPU, TENSORRT, ['cpu']],
    [
      'TensorRT with the precision that it has anyway',
      GPU,
      accelerators('gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP32" } }'),
      [{ name: 'tensorrt', deviceId: 3 }, cuda(3), 'cpu'],
    ],
  ])('%s', (_name, device, config, expected) => {
    expect(options(device, config).executionProviders).toEqual(expected);
  });

  test.each<[string, Device, string, string, string]>([
    [
      'an unknown one',
      GPU,
      'gpu_execution_accelerator { name: "npu" }',
      'INVALID_ARG',
      "model 'm': unknown Execution Accelerator 'npu' is requested; known are tensorrt, cuda",
    ],
    [
      'one of GPUs among those of the CPU',
      CPU,
      'cpu_execution_accelerator { name: "cuda" }',
      'INVALID_ARG',
      "model 'm': unknown Execution Accelerator 'cuda' is requested; known are openvino",
    ],
    [
      'one that the binding has not',
      GPU,
      'cpu_execution_accelerator { name: "openvino" }',
      'UNSUPPORTED',
      "model 'm' wants execution accelerator 'openvino' on the CPU, which onnxruntime-node does not have; remove it from optimization.execution_accelerators",
    ],
    [
      'a parameter that the binding cannot pass on',
      GPU,
      'gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } }',
      'UNSUPPORTED',
      "model 'm': parameter 'precision_mode' of execution accelerator 'tensorrt' cannot be passed on by onnxruntime-node; remove it from optimization.execution_accelerators",
    ],
    [
      "one of CUDA's too",
      GPU,
      'gpu_execution_accelerator { name: "cuda" parameters { key: "cudnn_conv_algo_search" value: "0" } }',
      'UNSUPPORTED',
      "model 'm': parameter 'cudnn_conv_algo_search' of execution accelerator 'cuda' cannot be passed on by onnxruntime-node; remove it from optimization.execution_accelerators",
    ],
  ])('refused: %s', (_name, device, config, code, message) => {
    expect(() => options(device, accelerators(config))).toThrow(expect.objectContaining({ code, message }));
  });
});

function cuda(deviceId: number) {
  return { name: 'cuda', deviceId };
}
