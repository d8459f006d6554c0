/**
 * Session options from a model's config and `--backend-config`, with the keys and defaults of
 * Triton's ONNX Runtime backend (onnxruntime_backend README) except for the thread counts: there
 * 0 is one thread per core, here 1, since each instance has a session of its own.
 */
import { NereidError } from '@nereid/protocol';
import type { InferenceSession } from 'onnxruntime-node';
import type { InstanceLoad } from './backend.ts';

type Provider = InferenceSession.ExecutionProviderConfig;

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

/** onnxruntime-node has no fallback of its own between providers: what is named must load. */
function providers(load: InstanceLoad): Provider[] {
  const { config, device } = load;
  const accelerators = config.optimization?.executionAccelerators;
  const wanted = device.kind === 'gpu' ? accelerators?.gpuExecutionAccelerator : accelerators?.cpuExecutionAccelerator;
  const list: Provider[] = [];
  for (const { name } of wanted ?? []) {
    if (device.kind === 'gpu' && name === 'tensorrt') list.push({ name: 'tensorrt', deviceId: device.id });
    else if (name !== 'cuda') {
      throw new NereidError(
        'UNSUPPORTED',
        `model '${config.name}' wants execution accelerator '${name}' on ${device.kind.toUpperCase()}, ` +
          'which onnxruntime-node does not have; remove it from optimization.execution_accelerators',
      );
    }
  }
  if (device.kind === 'gpu') list.push({ name: 'cuda', deviceId: device.id });
  list.push('cpu');
  return list;
}
