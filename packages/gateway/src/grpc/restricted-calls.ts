import type { ErrorInfo } from '@nereid/protocol';
import { type ApiCategory, bringsKey, type RestrictedApis } from '../restricted.ts';
import type { CallMetadata, GrpcCall } from './transport.ts';

/** Before the key's name in the metadata (grpc_server.cc). */
const METADATA_PREFIX = 'triton-grpc-protocol-';

/** By the method's name, Triton's group (restricted_features.h, grpc_server.cc). */
const CATEGORIES: Readonly<Record<string, ApiCategory>> = {
  ServerLive: 'health',
  ServerReady: 'health',
  ModelReady: 'health',
  Check: 'health',
  ServerMetadata: 'metadata',
  ModelMetadata: 'metadata',
  ModelInfer: 'inference',
  ModelStreamInfer: 'inference',
  ModelConfig: 'model-config',
  ModelStatistics: 'statistics',
  RepositoryIndex: 'model-repository',
  RepositoryModelLoad: 'model-repository',
  RepositoryModelUnload: 'model-repository',
  SystemSharedMemoryStatus: 'shared-memory',
  SystemSharedMemoryRegister: 'shared-memory',
  SystemSharedMemoryUnregister: 'shared-memory',
  CudaSharedMemoryStatus: 'shared-memory',
  CudaSharedMemoryRegister: 'shared-memory',
  CudaSharedMemoryUnregister: 'shared-memory',
  TraceSetting: 'trace',
  LogSettings: 'logging',
};

/** Why a call is refused for want of its key; undefined where it may go on. */
export function restrictedRefusal(
  restricted: RestrictedApis,
  { path }: Pick<GrpcCall, 'path'>,
  metadata: CallMetadata,
): ErrorInfo | undefined {
  const category = CATEGORIES[path.slice(path.lastIndexOf('/') + 1)];
  const key = category === undefined ? undefined : restricted.get(category);
  if (key === undefined) return undefined;
  const name = `${METADATA_PREFIX}${key.name}`;
  if (bringsKey(key, metadata.get(name.toLowerCase()))) return undefined;
  return { code: 'UNAVAILABLE', message: `This protocol is restricted, expecting header '${name}'` };
}
