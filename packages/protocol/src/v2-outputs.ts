import { NereidError } from './error.ts';
import type { JsonScalar } from './json-reader.ts';
import type { RawTensor, RawTensorParameters } from './v2-document.ts';
import { textMember, wrongKind } from './v2-member.ts';
import { unsigned } from './v2-parameters.ts';
import { type SharedMemoryPlace, sharedMemoryPlace, unknownRegion } from './v2-shared-memory.ts';

/** An output that the client listed. */
export interface RequestedOutput {
  readonly name: string;
  /** True for raw bytes behind the JSON, false for JSON. */
  readonly binary: boolean;
  /** How many classes to give in place of the values, 0 for the values. */
  readonly classification: number;
  /** Where to put the values, in place of the answer. */
  readonly sharedMemory?: SharedMemoryPlace;
}

/**
 * The request's `outputs` in the client's order, repeated ones too; empty where there are none.
 * Without `sharedMemory` every region is unknown.
 */
export function readOutputs(
  raw: readonly RawTensor[] | JsonScalar | undefined,
  sharedMemory: boolean,
): readonly RequestedOutput[] {
  if (raw === undefined) return [];
  if (!Array.isArray(raw)) throw wrongKind('outputs', 'outputs', 'JSON non-array as array');
  return (raw as readonly RawTensor[]).map((output, index) => readOutput(output, `outputs[${index}]`, sharedMemory));
}

function readOutput(raw: RawTensor, field: string, sharedMemory: boolean): RequestedOutput {
  const { parameters } = raw;
  if (parameters !== undefined) checkExclusive(parameters, field);
  const name = textMember(raw.name, 'name', field);
  if (parameters === undefined) return { name, binary: false, classification: 0 };
  const classification = readClassification(parameters.classification, field);
  const place = parameters.sharedMemoryRegion === undefined ? undefined : sharedMemoryPlace(parameters, field);
  if (place !== undefined && !sharedMemory) throw unknownRegion(place.region, field);
  const binary = parameters.binaryData ?? false;
  if (typeof binary !== 'boolean') {
    throw wrongKind('binary_data', `${field}.parameters.binary_data`, 'JSON non-boolean as boolean');
  }
  return place === undefined ? { name, binary, classification } : { name, binary, classification, sharedMemory: place };
}

/** Shared memory goes neither with classes nor with bytes behind the JSON (ValidateOutputParameter). */
function checkExclusive(parameters: RawTensorParameters, field: string): void {
  if (parameters.sharedMemoryRegion === undefined) return;
  const other =
    parameters.classification !== undefined
      ? 'classification'
      : parameters.binaryData === true
        ? 'binary_data'
        : undefined;
  if (other === undefined) return;
  throw new NereidError('INVALID_ARG', `Output can't set both 'shared_memory_region' and '${other}'`, {
    field: `${field}.parameters`,
  });
}

function readClassification(value: JsonScalar | undefined, field: string): number {
  if (value === undefined) return 0;
  const count = unsigned(value);
  if (count !== undefined) return Number(count);
  throw new NereidError(
    'INVALID_ARG',
    "Unable to set 'classification': attempt to access JSON non-unsigned-integer as unsigned-integer",
    { field: `${field}.parameters.classification` },
  );
}
