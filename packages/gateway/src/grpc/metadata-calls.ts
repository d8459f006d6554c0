import { modelMetadata as metadataOf, servedConfig, type TensorMetadata } from '../model-metadata.ts';
import { serverMetadata as metadataOfServer } from '../server-metadata.ts';
import type { CallContext } from './call-context.ts';
import { findModel } from './find-model.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** Metadata of the server and of models, and their configs. */
export function metadataCalls({ gateway, serverId, version }: CallContext): readonly GrpcCall[] {
  const { serverMetadata, modelMetadata, modelConfig } = GRPCInferenceService.method;
  const { extensions, ...server } = metadataOfServer(serverId, version);
  return [
    unary(serverMetadata, () => ({ ok: true, value: { ...server, extensions: [...extensions] } })),
    unary(modelMetadata, (request) => {
      const found = findModel(gateway, request.name, request.version);
      if (!found.ok) return found;
      const { name, versions, platform, inputs, outputs } = metadataOf(found, request.version);
      const value = {
        name,
        versions: [...versions],
        platform,
        inputs: inputs.map(tensor),
        outputs: outputs.map(tensor),
      };
      return { ok: true, value };
    }),
    unary(modelConfig, (request) => {
      const found = findModel(gateway, request.name, request.version);
      return found.ok ? { ok: true, value: { config: servedConfig(found) } } : found;
    }),
  ];
}

function tensor({ name, datatype, shape }: TensorMetadata) {
  return { name, datatype, shape: shape.map(BigInt) };
}
