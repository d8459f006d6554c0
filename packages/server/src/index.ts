export type { ModelRecord, TraceConfig, VersionRecord } from '@nereid/config';
export type { LoadFailure } from '@nereid/coordinator';
export {
  type BatchStatistics,
  bf16ToFp32,
  type Datatype,
  type DurationStatistics,
  type ErrorCode,
  fp16ToFp32,
  type InferenceStatistics,
  type InferInput,
  type InferResult,
  NereidError,
  type Parameters,
  type ParameterValue,
  type ResponseStatistics,
  type SequenceInput,
  type TensorInput,
  type TensorOutput,
  type VersionStatistics,
} from '@nereid/protocol';
export type { LogControl, LogSettings } from '@nereid/runtime';
export type { ModelOverride } from './change-models.ts';
export { createServer, type Server, type ServerCounts } from './create-server.ts';
export type { ProcessUrls } from './process-urls.ts';
export type {
  GrpcOptions,
  HttpOptions,
  ListenerOptions,
  RedisOptions,
  ServerOptions,
  TlsFileOptions,
} from './server-options.ts';
export { type GatewayOptions, type RoleName, type RoleProcess, startRole } from './start-role.ts';
