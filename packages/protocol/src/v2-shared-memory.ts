import { NereidError } from './error.ts';
import type { RawTensorParameters } from './v2-document.ts';
import { textMember, unsignedMember } from './v2-member.ts';

/** Where in a region that a client has registered a tensor lies. */
export interface SharedMemoryPlace {
  readonly region: string;
  /** Bytes from the beginning of the region. */
  readonly offset: number;
  readonly byteSize: number;
}

/**
 * The bytes of that place, in memory of the request's own: what the client writes later does not
 * change them. `field` is the tensor's, e.g. `inputs[0]`. Throws NOT_FOUND for an unknown region,
 * INVALID_ARG for a place outside it.
 */
export type ReadSharedMemory = (region: string, offset: number, byteSize: number, field: string) => Uint8Array;

/** Bytes that the inputs of one request take from shared memory: each is copied, and one region may be named often. */
const SHARED_MEMORY_BYTES_MAX = 1_073_741_824;

/** What the parameters of a tensor say of its place (CheckSharedMemoryData in http_server.cc). A size not given is 0. */
export function sharedMemoryPlace(parameters: RawTensorParameters, field: string): SharedMemoryPlace {
  const member = `${field}.parameters`;
  const region = textMember(parameters.sharedMemoryRegion, 'shared_memory_region', member);
  const offset = unsignedMember(parameters.sharedMemoryOffset, 'shared_memory_offset', member) ?? 0n;
  const byteSize = unsignedMember(parameters.sharedMemoryByteSize, 'shared_memory_byte_size', member) ?? 0n;
  // Past 2^53 the sum is only near, which is far outside any region all the same.
  return { region, offset: Number(offset), byteSize: Number(byteSize) };
}

/** Of a region that is not registered, or where none can be. */
export function unknownRegion(region: string, field: string): NereidError {
  return new NereidError('NOT_FOUND', `Unable to find shared memory region: '${region}'`, {
    field: `${field}.parameters.shared_memory_region`,
  });
}

/** The bytes that inputs have taken from shared memory, with those of one more. Throws INVALID_ARG past the bound. */
export function addSharedBytes(taken: number, byteSize: number, field: string): number {
  const sum = taken + byteSize;
  if (sum <= SHARED_MEMORY_BYTES_MAX) return sum;
  throw new NereidError(
    'INVALID_ARG',
    `the inputs take ${sum} bytes from shared memory, more than ${SHARED_MEMORY_BYTES_MAX}; send several requests`,
    { field: `${field}.parameters.shared_memory_byte_size` },
  );
}
