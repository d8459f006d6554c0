/** A ModelConfig as Triton's GET …/config prints it, and as messages carry it. */
import { type DescField, fromJsonString, ScalarType, toJsonString } from '@bufbuild/protobuf';
import { isReflectMessage, type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { NereidError } from '@nereid/protocol';
import { type ModelConfig, ModelConfigSchema } from './gen/model_config_pb.ts';

/**
 * 64-bit fields that Triton forgets to turn from protobuf JSON's strings into numbers
 * (core/src/model_config_utils.cc, ModelConfigToJson); recorded for initial_state.
 */
const QUOTED_FIELDS: ReadonlySet<string> = new Set([
  'inference.ModelSequenceBatching.InitialState.dims',
  'inference.ModelInstanceGroup.SecondaryDevice.device_id',
  'inference.ModelOptimizationPolicy.Cuda.GraphSpec.Shape.dim',
]);

/**
 * The text of GET /v2/models/{model}/config: snake_case names, every scalar, list and map printed
 * even when empty, unset messages and unset oneof members left out, 64-bit integers as exact JSON
 * numbers, enums as names.
 */
export function modelConfigJson(config: ModelConfig): string {
  return messageJson(reflect(ModelConfigSchema, config));
}

/** A config as protobuf JSON text, exact, for messages between processes. */
export function encodeModelConfig(config: ModelConfig): string {
  return toJsonString(ModelConfigSchema, config);
}

/** Reads what `encodeModelConfig` wrote. Throws INVALID_ARG for any other text. */
export function decodeModelConfig(text: string): ModelConfig {
  try {
    return fromJsonString(ModelConfigSchema, text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new NereidError('INVALID_ARG', `the model configuration cannot be read: ${reason}`, { cause: error });
  }
}

function messageJson(view: ReflectMessage): string {
  const members: string[] = [];
  for (const field of view.sortedFields) {
    const optional = field.fieldKind === 'message' || field.oneof !== undefined;
    if (optional && !view.isSet(field)) continue;
    members.push(`${JSON.stringify(field.name)}:${fieldJson(view, field)}`);
  }
  return `{${members.join(',')}}`;
}

function fieldJson(view: ReflectMessage, field: DescField): string {
  if (field.fieldKind === 'list') {
    return `[${Array.from(view.get(field), (item) => valueJson(field, item)).join(',')}]`;
  }
  if (field.fieldKind === 'map') {
    const entries = Array.from(
      view.get(field),
      ([key, value]) => `${JSON.stringify(String(key))}:${valueJson(field, value)}`,
    );
    return `{${entries.join(',')}}`;
  }
  return valueJson(field, view.get(field));
}

function valueJson(field: DescField, value: unknown): string {
  if (isReflectMessage(value)) return messageJson(value);
  if (typeof value === 'bigint') {
    return QUOTED_FIELDS.has(`${field.parent.typeName}.${field.name}`) ? `"${value}"` : value.toString();
  }
  if (typeof value === 'number' && field.enum !== undefined) {
    return JSON.stringify(field.enum.value[value]?.name ?? value);
  }
  if (typeof value === 'number') return numberJson(value, field.scalar === ScalarType.FLOAT);
  return JSON.stringify(value);
}

/** Protobuf JSON's numbers: the shortest that reads back to the same float, the odd ones as text. */
function numberJson(value: number, single: boolean): string {
  if (!Number.isFinite(value)) return JSON.stringify(String(value));
  if (!single) return JSON.stringify(value);
  for (const digits of [6, 7, 8]) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return JSON.stringify(short);
  }
  return JSON.stringify(value);
}
