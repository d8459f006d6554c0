import type { Result } from '../result.ts';
import { cudaRefusal, cudaUnknown } from '../shared-memory.ts';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** Regions of shared memory, the same as over HTTP (shared_memory_manager.cc). */
export function sharedMemoryCalls({ sharedMemory }: Pick<CallContext, 'sharedMemory'>): readonly GrpcCall[] {
  const { method } = GRPCInferenceService;
  return [
    unary(method.systemSharedMemoryStatus, ({ name }) => {
      const status = sharedMemory.status(name);
      if (!status.ok) return status;
      const regions = status.value.map(({ name, key, offset, byteSize }) => {
        return [name, { name, key, offset: BigInt(offset), byteSize: BigInt(byteSize) }] as const;
      });
      return { ok: true, value: { regions: Object.fromEntries(regions) } };
    }),
    unary(method.systemSharedMemoryRegister, ({ name, key, offset, byteSize }) =>
      // Past 2^53 they are only near, and no region is as large.
      emptied(sharedMemory.register({ name, key, offset: Number(offset), byteSize: Number(byteSize) })),
    ),
    unary(method.systemSharedMemoryUnregister, ({ name }) => emptied(sharedMemory.unregister(name))),
    unary(method.cudaSharedMemoryStatus, ({ name }) =>
      name === '' ? { ok: true, value: {} } : { ok: false, error: cudaUnknown(name) },
    ),
    unary(method.cudaSharedMemoryRegister, ({ name }) => ({ ok: false, error: cudaRefusal(name) })),
    unary(method.cudaSharedMemoryUnregister, () => ({ ok: true, value: {} })),
  ];
}

function emptied(result: Result<undefined>): Result<object> {
  return result.ok ? { ok: true, value: {} } : result;
}
