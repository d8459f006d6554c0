/**
 * The inputs that tell a model of the flags and the id of each step, and that no request has
 * (model_config.proto, ModelSequenceBatching.Control; sequence_batch_scheduler.cc, SetControlTensors).
 */
import type { ControlSignature, SequenceSignature } from '@nereid/config';
import { bytesOf, encodeBytesElements, type Tensor } from '@nereid/protocol';

/** What the controls of one row tell. */
export interface ControlledStep {
  readonly correlationId: bigint | string;
  /** The id as an integer of 64 bits (`correlationNumber`). */
  readonly correlationNumber: bigint;
  readonly start: boolean;
  readonly end: boolean;
}

const FNV_OFFSET_BASIS = 0xcbf2_9ce4_8422_2325n;
const FNV_PRIME = 0x0000_0100_0000_01b3n;

/**
 * The controls over all rows, each of shape [rows, 1], or [1] where the model does not batch. Undefined
 * is a row that belongs to no step: false in all of them, id 0 or an empty text.
 */
export function controlTensors(
  { controls }: SequenceSignature,
  batching: boolean,
  rows: readonly (ControlledStep | undefined)[],
): Tensor[] {
  const shape = batching ? [rows.length, 1] : [1];
  return controls.map((control) => ({
    name: control.name,
    datatype: control.datatype,
    shape,
    data: control.kind === 'CORRID' ? idData(control, rows) : flagData(control, rows),
  }));
}

/**
 * A correlation id as an integer of 64 bits, for models that want one: a text's is the FNV-1a hash of
 * its UTF-8 form, which is the same in every process and version.
 */
export function correlationNumber(id: bigint | string): bigint {
  if (typeof id === 'bigint') return BigInt.asUintN(64, id);
  let hash = FNV_OFFSET_BASIS;
  for (const byte of Buffer.from(id, 'utf8')) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * FNV_PRIME);
  return hash;
}

function flagData({ kind, datatype, falseTrue }: ControlSignature, rows: readonly (ControlledStep | undefined)[]) {
  const { length } = rows;
  const values =
    datatype === 'FP32'
      ? new Float32Array(length)
      : datatype === 'BOOL'
        ? new Uint8Array(length)
        : new Int32Array(length);
  for (const [row, step] of rows.entries()) {
    const isTrue = kind === 'READY' ? step !== undefined : kind === 'START' ? step?.start : step?.end;
    values[row] = falseTrue[isTrue === true ? 1 : 0];
  }
  return bytesOf(values);
}

function idData({ datatype }: ControlSignature, rows: readonly (ControlledStep | undefined)[]): Uint8Array {
  if (datatype === 'BYTES') {
    return encodeBytesElements(rows.map((step) => (step === undefined ? '' : String(step.correlationId))));
  }
  const numbers = rows.map((step) => step?.correlationNumber ?? 0n);
  switch (datatype) {
    case 'INT64':
      return bytesOf(BigInt64Array.from(numbers));
    case 'UINT32':
      return bytesOf(Uint32Array.from(numbers, (id) => Number(BigInt.asUintN(32, id))));
    case 'INT32':
      return bytesOf(Int32Array.from(numbers, (id) => Number(BigInt.asIntN(32, id))));
    default:
      return bytesOf(BigUint64Array.from(numbers));
  }
}
