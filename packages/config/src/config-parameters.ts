import { mapEntry, refuseField } from './config-fault.ts';
import { nearestName } from './flag-nearest.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

const OWN_PREFIX = 'nereid.';

/** Config parameters of Nereid's own, in a form that Triton ignores. */
const OWN_PARAMETERS: readonly string[] = [
  'nereid.carrier',
  'nereid.execution_timeout_ms',
  'nereid.eager_batch',
  'nereid.journal',
  'nereid.checkpoint',
  'nereid.labels',
  'nereid.pin',
  'nereid.keep_warm_ms',
  'nereid.scale_to_zero',
  'nereid.max_wait_ms',
  'nereid.bulk',
  'nereid.job_bytes_max',
  'nereid.journal_redact',
];

const EAGER_BATCH = 'nereid.eager_batch';
const BULK = 'nereid.bulk';
const JOB_BYTES_MAX = 'nereid.job_bytes_max';
const BULK_RULES = ['fill', 'idle', 'off'] as const;

/**
 * Where lines of batches may run. `fill`: on instances that have nothing else to do, and in rows that are left of other
 * batches. `idle`: on such instances alone. `off`: nowhere, batches are refused.
 */
export type BulkRule = (typeof BULK_RULES)[number];

export function bulkRule({ parameters }: Pick<ModelConfig, 'parameters'>): BulkRule {
  const given = parameters[BULK]?.stringValue;
  return BULK_RULES.find((rule) => rule === given) ?? 'fill';
}

/** Refuses a value that is none. */
export function checkBulk({ name, parameters }: ModelConfig): void {
  const given = parameters[BULK]?.stringValue;
  if (given === undefined || BULK_RULES.some((rule) => rule === given)) return;
  const text = `parameter '${BULK}' for ${name} must be ${BULK_RULES.map((rule) => `'${rule}'`).join(' or ')}, not '${given}'`;
  refuseField(mapEntry('parameters', BULK), text);
}

/** Bytes that the inputs of a job may take in all; undefined where the config sets no limit. */
export function jobBytesMax({ parameters }: Pick<ModelConfig, 'parameters'>): number | undefined {
  const given = parameters[JOB_BYTES_MAX]?.stringValue;
  return given !== undefined && /^[1-9][0-9]{0,14}$/.test(given) ? Number(given) : undefined;
}

/** Refuses a value that is none. */
export function checkJobBytesMax(config: ModelConfig): void {
  const given = config.parameters[JOB_BYTES_MAX]?.stringValue;
  if (given === undefined || jobBytesMax(config) !== undefined) return;
  const text = `parameter '${JOB_BYTES_MAX}' for ${config.name} must be a number of bytes from 1, not '${given}'`;
  refuseField(mapEntry('parameters', JOB_BYTES_MAX), text);
}

/** Whether batches of the model may go before their queue delay is over, where waiting on is of no use. */
export function closesEarly({ parameters }: Pick<ModelConfig, 'parameters'>): boolean {
  return parameters[EAGER_BATCH]?.stringValue === 'true';
}

/** Refuses a value that is none, and one for a model that forms no batches. */
export function checkEagerBatch(config: ModelConfig): void {
  const given = config.parameters[EAGER_BATCH]?.stringValue;
  if (given === undefined || given === 'false') return;
  const refuse = (text: string) => {
    refuseField(mapEntry('parameters', EAGER_BATCH), `parameter '${EAGER_BATCH}' for ${config.name} ${text}`);
  };
  if (given !== 'true') refuse(`must be 'true' or 'false', not '${given}'`);
  if (config.schedulingChoice.case !== 'dynamicBatching') refuse("needs 'dynamic_batching'");
}

/** Refuses a parameter that looks like one of ours and is none, since it would be ignored. */
export function checkOwnParameters(config: ModelConfig): void {
  for (const key of Object.keys(config.parameters)) {
    if (!key.startsWith(OWN_PREFIX) || OWN_PARAMETERS.includes(key)) continue;
    const nearest = nearestName(key, OWN_PARAMETERS);
    const fix = nearest === undefined ? `known are ${OWN_PARAMETERS.join(', ')}` : `did you mean '${nearest}'?`;
    refuseField(mapEntry('parameters', key), `unknown parameter '${key}' for ${config.name}; ${fix}`);
  }
}
