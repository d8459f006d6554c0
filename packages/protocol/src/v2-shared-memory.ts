import { NereidError } from './error.ts';
import type { RawTensorParameters } from './v2-document.ts';
import { textMember, unsignedMember } from './v2-member.ts';

/**
 * A tensor in shared memory (CheckSharedMemoryData in http_server.cc). No region can be registered
 * with this server yet, so that every name is unknown: NOT_FOUND, after INVALID_ARG for parameters
 * of the wrong kind.
 */
export function checkSharedMemory(parameters: RawTensorParameters, field: string): never {
  const place = `${field}.parameters`;
  const region = textMember(parameters.sharedMemoryRegion, 'shared_memory_region', place);
  unsignedMember(parameters.sharedMemoryOffset, 'shared_memory_offset', place);
  unsignedMember(parameters.sharedMemoryByteSize, 'shared_memory_byte_size', place);
  throw new NereidError('NOT_FOUND', `Unable to find shared memory region: '${region}'`, {
    field: `${place}.shared_memory_region`,
  });
}
