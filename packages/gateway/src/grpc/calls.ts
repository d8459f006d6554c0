import type { DescMethod } from '@bufbuild/protobuf';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { healthCalls } from './health-calls.ts';
import { inferCalls } from './infer-calls.ts';
import { metadataCalls } from './metadata-calls.ts';
import { repositoryCalls } from './repository-calls.ts';
import { settingsCalls } from './settings-calls.ts';
import { sharedMemoryCalls } from './shared-memory-calls.ts';
import { statisticsCalls } from './statistics-calls.ts';
import { streamCalls } from './stream-calls.ts';
import type { GrpcCall } from './transport.ts';
import { pathOf } from './unary.ts';

/**
 * Every call of the server. An area adds its own in two steps: a file `<area>-calls.ts` with a function
 * from the context to its calls (`unary` for one request and one answer by the generated messages, a
 * StreamCall by hand), and a line here. Its service stands in the context's Services. A method of
 * Triton's service that no area has is answered as not served.
 */
export function grpcCalls(context: CallContext): readonly GrpcCall[] {
  const served = [
    ...healthCalls(context),
    ...metadataCalls(context),
    ...inferCalls(context),
    ...streamCalls(context),
    ...settingsCalls(context),
    ...repositoryCalls(context),
    ...statisticsCalls(context),
    ...sharedMemoryCalls(context),
  ];
  const paths = new Set(served.map(({ path }) => path));
  const others = GRPCInferenceService.methods.filter((method) => !paths.has(pathOf(method)));
  return [...served, ...others.map(notServed)];
}

function notServed(method: DescMethod): GrpcCall {
  const error = { code: 'UNSUPPORTED', message: `this version does not serve the RPC ${method.name}` } as const;
  const names = { path: pathOf(method), compressed: false };
  return method.methodKind === 'unary'
    ? { kind: 'unary', ...names, handle: () => ({ ok: false, error }) }
    : { kind: 'stream', ...names, handle: async (call) => call.fail(error) };
}
