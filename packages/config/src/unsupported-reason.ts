import { isEnsemble } from './complete-model-config.ts';
import { ModelInstanceGroup_Kind as Kind, type ModelConfig } from './gen/model_config_pb.ts';

const SERVED_BACKENDS: readonly string[] = ['onnxruntime', 'javascript'];
/** Those that can give a request any number of answers. */
const STREAMING_BACKENDS: readonly string[] = ['javascript'];

/**
 * Why this version of Nereid cannot serve a model whose config is right, or undefined.
 * Loading it must fail with this text rather than serve it otherwise than configured.
 */
export function unsupportedReason(config: ModelConfig): string | undefined {
  return unsupportedField(config)?.text;
}

/** The same with the field that asks for it. */
export function unsupportedField(config: ModelConfig): { readonly field: string; readonly text: string } | undefined {
  const [what, field] = unsupported(config) ?? [];
  if (what === undefined || field === undefined) return undefined;
  return { field, text: `${what} is not served by this version of Nereid` };
}

function unsupported(config: ModelConfig): readonly [what: string, field: string] | undefined {
  const ensemble = isEnsemble(config);
  if (!ensemble && !SERVED_BACKENDS.includes(config.backend)) return [`the backend '${config.backend}'`, 'backend'];
  if (!ensemble && config.modelTransactionPolicy?.decoupled === true && !STREAMING_BACKENDS.includes(config.backend)) {
    return [
      `model_transaction_policy.decoupled with the backend '${config.backend}'`,
      'model_transaction_policy.decoupled',
    ];
  }
  // Their files go by the GPU's compute capability, which is not known here; on the CPU Triton does not look at them either.
  const isOnGpu = config.instanceGroup.some(({ kind }) => kind === Kind.GPU);
  if (isOnGpu && Object.keys(config.ccModelFilenames).length > 0) {
    return ['cc_model_filenames with instances of KIND_GPU', 'cc_model_filenames'];
  }
  return undefined;
}

/** The field of a config's scheduling choice that no scheduler of a queue honours: an ensemble has none. */
export function unsupportedScheduling({ schedulingChoice: choice }: ModelConfig): string | undefined {
  return choice.case === 'ensembleScheduling' ? 'ensemble_scheduling' : undefined;
}
