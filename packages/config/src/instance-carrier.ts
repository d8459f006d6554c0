import { mapEntry, refuseField } from './config-fault.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';

const CARRIER_KEY = 'nereid.carrier';
const TIMEOUT_KEY = 'nereid.execution_timeout_ms';
const CHOICES = ['auto', 'thread', 'process'] as const;
/** What a timer can count. */
const EXECUTION_TIMEOUT_MS_MAX = 2_147_483_647;

/** What runs an instance: a thread of its worker, or a process of its own. */
export type CarrierKind = 'thread' | 'process';

/** What a model's parameters say of the carriers of its instances. */
export interface CarrierSettings {
  readonly carrier: (typeof CHOICES)[number];
  /** An execution that takes longer ends with its process; undefined for no limit. */
  readonly executionTimeoutMs: number | undefined;
}

/**
 * Reads `nereid.carrier` and `nereid.execution_timeout_ms`. Throws INVALID_ARG for values that they cannot
 * have, and for a time-out beside `thread`: nothing can end a run inside a thread, so it would be a promise
 * that is not kept.
 */
export function carrierSettings({ name, parameters }: ModelConfig): CarrierSettings {
  const chosen = parameters[CARRIER_KEY]?.stringValue ?? 'auto';
  const carrier = CHOICES.find((choice) => choice === chosen);
  if (carrier === undefined) {
    refuse(
      CARRIER_KEY,
      `parameter '${CARRIER_KEY}' of model ${name} must be one of ${CHOICES.join(', ')}, got '${chosen}'`,
    );
  }
  const text = parameters[TIMEOUT_KEY]?.stringValue;
  if (text === undefined) return { carrier, executionTimeoutMs: undefined };
  const executionTimeoutMs = /^\d+$/.test(text) ? Number(text) : 0;
  if (executionTimeoutMs < 1 || executionTimeoutMs > EXECUTION_TIMEOUT_MS_MAX) {
    const range = `a whole number of milliseconds from 1 to ${EXECUTION_TIMEOUT_MS_MAX}`;
    refuse(TIMEOUT_KEY, `parameter '${TIMEOUT_KEY}' of model ${name} must be ${range}, got '${text}'`);
  }
  if (carrier === 'thread') {
    const why = `needs instances in processes, since a run inside a thread cannot be ended`;
    refuse(
      TIMEOUT_KEY,
      `parameter '${TIMEOUT_KEY}' of model ${name} ${why}; leave '${CARRIER_KEY}' out or set it to process`,
    );
  }
  return { carrier, executionTimeoutMs };
}

/**
 * What carries an instance: by `auto` a thread, but a process where something can be had of a process
 * alone, which is a time-out of executions or (`launched`) to be started by another command.
 */
export function carrierKind({ carrier, executionTimeoutMs }: CarrierSettings, launched: boolean): CarrierKind {
  if (carrier !== 'auto') return carrier;
  return launched || executionTimeoutMs !== undefined ? 'process' : 'thread';
}

function refuse(key: string, text: string): never {
  refuseField(mapEntry('parameters', key), text);
}
