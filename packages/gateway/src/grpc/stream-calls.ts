import { LIMITS } from '@nereid/config';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { streamInfer } from './stream-infer.ts';
import type { GrpcCall } from './transport.ts';
import { pathOf } from './unary.ts';

/** ModelStreamInfer. */
export function streamCalls(of: CallContext): readonly GrpcCall[] {
  const { modelStreamInfer } = GRPCInferenceService.method;
  const context = { ...of, limits: LIMITS };
  return [
    {
      kind: 'stream',
      path: pathOf(modelStreamInfer),
      compressed: true,
      handle: (call) => streamInfer(context, call),
    },
  ];
}
