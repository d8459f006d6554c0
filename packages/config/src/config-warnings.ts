import type { ModelConfig } from './gen/model_config_pb.ts';

/** Something in a config that is right and may not be what was meant. */
export interface ConfigWarning {
  /** The field's path. */
  readonly field: string;
  readonly text: string;
}

/** Fields that are kept and shown, and change nothing here (docs/configuration.md says so of each). */
export const INERT_FIELDS: Readonly<Record<string, (config: ModelConfig) => boolean>> = {
  runtime: ({ runtime }) => runtime !== '',
  cc_model_filenames: ({ ccModelFilenames }) => Object.keys(ccModelFilenames).length > 0,
  model_operations: ({ modelOperations }) => (modelOperations?.opLibraryFilename.length ?? 0) > 0,
  model_metrics: ({ modelMetrics }) => (modelMetrics?.metricControl.length ?? 0) > 0,
  'optimization.priority': ({ optimization }) => optimization !== undefined && optimization.priority !== 0,
  'optimization.cuda': ({ optimization }) => optimization?.cuda !== undefined,
  'optimization.gather_kernel_buffer_threshold': ({ optimization }) =>
    optimization !== undefined && optimization.gatherKernelBufferThreshold !== 0,
  'optimization.eager_batching': ({ optimization }) => optimization?.eagerBatching === true,
};

export function configWarnings(config: ModelConfig): ConfigWarning[] {
  const warnings: ConfigWarning[] = Object.entries(INERT_FIELDS)
    .filter(([, isSet]) => isSet(config))
    .map(([field]) => ({ field, text: `'${field}' has no effect here` }));
  for (const [index, { secondaryDevices }] of config.instanceGroup.entries()) {
    if (secondaryDevices.length === 0) continue;
    const field = `instance_group[${index}].secondary_devices`;
    warnings.push({ field, text: "'secondary_devices' has no effect here" });
  }
  if (config.schedulingChoice.case === 'dynamicBatching' && config.maxBatchSize === 0) {
    const text = "'dynamic_batching' joins no requests, since max_batch_size is 0: the model has no dimension for rows";
    warnings.push({ field: 'dynamic_batching', text });
  }
  return warnings;
}
