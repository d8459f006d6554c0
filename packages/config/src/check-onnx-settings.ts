import { type ConfigCheck, mapEntry, refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

const GRAPH_LEVELS: readonly number[] = [-1, 0, 1, 2];
/** Parameters that the ONNX backend reads as numbers (backends/onnx-options). */
const NUMBERS: readonly string[] = [
  'intra_op_thread_count',
  'inter_op_thread_count',
  'execution_mode',
  'enable_mem_arena',
  'enable_mem_pattern',
];

/** What an ONNX model's sessions could not be made with, found before one is made. */
export function onnxSettingsChecks(config: ModelConfig): ConfigCheck[] {
  if (config.backend !== 'onnxruntime') return [];
  const { name, parameters, optimization } = config;
  return [
    () => {
      const level = optimization?.graph?.level ?? 0;
      if (GRAPH_LEVELS.includes(level)) return;
      const text = `model '${name}' has optimization.graph.level ${level}; -1, 0, 1 and 2 are known`;
      refuseField('optimization.graph.level', text);
    },
    ...NUMBERS.map((key) => () => {
      const text = parameters[key]?.stringValue;
      if (text === undefined || /^\d{1,4}$/.test(text)) return;
      const wanted = `must be a whole number from 0 to 9999, got '${text}'`;
      refuseField(mapEntry('parameters', key), `model '${name}': parameter '${key}' ${wanted}`);
    }),
  ];
}
