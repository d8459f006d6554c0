/**
 * Session options from a model's config and `--backend-config`, with the keys and defaults of
 * Triton's ONNX Runtime backend (onnxruntime_backend README) except for the thread counts: there
 * 0 is one thread per core, here 1, since each instance has a session of its own.
 */
import { NereidError } from '@nereid/protocol';
import type { InferenceSession } from 'onnxruntime-node';
import type { InstanceLoad } from './backend.ts';

type Provider = InferenceSession.ExecutionProviderConfig;

interface Accelerator {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

const GRAPH_LEVELS = new Map<number, 'disabled' | 'basic' | 'extended' | 'all'>([
  [-1, 'basic'],
  [0, 'all'],
  [1, 'extended'],
  [2, 'disabled'],
]);

/** ORT's own level "fatal": what fails is reported as an error, not written to standard error too. */
const LOG_FATAL = 4;

/** Throws INVALID_ARG for a value that is not understood, UNSUPPORTED for an accelerator that is not there. */
export function sessionOptions(load: InstanceLoad): InferenceSession.SessionOptions {
  const { config } = load;
  const value = (key: string) => config.parameters[key]?.stringValue ?? load.settings[key];
  const level = config.optimization?.graph?.level ?? 0;
  const graphOptimizationLevel = GRAPH_LEVELS.get(level);
  if (graphOptimizationLevel === undefined) {
    throw new NereidError(
      'INVALID_ARG',
      `model '${config.name}' has optimization.graph.level ${level}; -1, 0, 1 and 2 are known`,
    );
  }
  return {
    intraOpNumThreads: wholeNumber(config.name, 'intra_op_thread_count', value('intra_op_thread_count')) ?? 1,
    interOpNumThreads: wholeNumber(config.name, 'inter_op_thread_count', value('inter_op_thread_count')) ?? 1,
    executionMode:
      wholeNumber(config.name, 'execution_mode', value('execution_mode')) === 1 ? 'parallel' : 'sequential',
    enableCpuMemArena: wholeNumber(config.name, 'enable_mem_arena', value('enable_mem_arena')) !== 0,
    enableMemPattern: wholeNumber(config.name, 'enable_mem_pattern', value('enable_mem_pattern')) !== 0,
    graphOptimizationLevel,
    executionProviders: providers(load),
    logSeverityLevel: LOG_FATAL,
  };
}

function wholeNumber(model: string, key: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,4}$/.test(text)) {
    throw new NereidError(
      'INVALID_ARG',
      `model '${model}': parameter '${key}' must be a whole number from 0 to 9999, got '${text}'`,
    );
  }
  return Number(text);
}

/** Names as Triton has them (onnxruntime.cc); those of GPUs count on GPU instances only. */
const GPU_ACCELERATORS: readonly string[] = ['tensorrt', 'cuda'];
const CPU_ACCELERATORS: readonly string[] = ['openvino'];

/**
 * In the order in which nodes of the graph are offered to them. What is named must load: onnxruntime-node does not
 * fall back from one to the next, so an instance that is for a GPU is never on the CPU instead. Of an instance of kind
 * KIND_MODEL the backend decides: the CPU, as Triton's does.
 */
function providers({ config, device }: InstanceLoad): Provider[] {
  const { gpuExecutionAccelerator = [], cpuExecutionAccelerator = [] } =
    config.optimization?.executionAccelerators ?? {};
  const list: Provider[] = [];
  if (device.kind === 'gpu') {
    for (const accelerator of gpuExecutionAccelerator) {
      checkAccelerator(config.name, accelerator, GPU_ACCELERATORS);
      if (accelerator.name === 'tensorrt') list.push({ name: 'tensorrt', deviceId: device.id });
    }
    list.push({ name: 'cuda', deviceId: device.id });
  }
  for (const accelerator of cpuExecutionAccelerator) {
    checkAccelerator(config.name, accelerator, CPU_ACCELERATORS);
    throw new NereidError(
      'UNSUPPORTED',
      `model '${config.name}' wants execution accelerator '${accelerator.name}' on the CPU, which onnxruntime-node ` +
        'does not have; remove it from optimization.execution_accelerators',
    );
  }
  list.push('cpu');
  return list;
}

/** onnxruntime-node hands its providers a device and nothing else. */
function checkAccelerator(model: string, { name, parameters }: Accelerator, known: readonly string[]): void {
  if (!known.includes(name)) {
    const text = `unknown Execution Accelerator '${name}' is requested`;
    throw new NereidError('INVALID_ARG', `model '${model}': ${text}; known are ${known.join(', ')}`);
  }
  for (const [key, value] of Object.entries(parameters)) {
    // What it does anyway.
    if (name === 'tensorrt' && key === 'precision_mode' && value === 'FP32') continue;
    throw new NereidError(
      'UNSUPPORTED',
      `model '${model}': parameter '${key}' of execution accelerator '${name}' cannot be passed on by ` +
        'onnxruntime-node; remove it from optimization.execution_accelerators',
    );
  }
}
