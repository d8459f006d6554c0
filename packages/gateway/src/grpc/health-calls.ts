import { versionRefusal } from '@nereid/caller';
import type { CallContext } from './call-context.ts';
import { GRPCInferenceService } from './gen/grpc_service_pb.ts';
import { Health, HealthCheckResponse_ServingStatus as ServingStatus } from './gen/health_pb.ts';
import type { GrpcCall } from './transport.ts';
import { unary } from './unary.ts';

/** Liveness and readiness, and the standard health service, whose `service` is not looked at (grpc_server.cc). */
export function healthCalls({ gateway }: CallContext): readonly GrpcCall[] {
  const { serverLive, serverReady, modelReady } = GRPCInferenceService.method;
  return [
    unary(serverLive, () => ({ ok: true, value: { live: gateway.live() } })),
    unary(serverReady, () => ({ ok: true, value: { ready: gateway.ready() } })),
    // Triton 2.51: an unknown model is not ready, which is no error.
    unary(modelReady, ({ name, version }) => {
      const error = versionRefusal(version);
      return error === undefined
        ? { ok: true, value: { ready: gateway.modelReady(name, version) } }
        : { ok: false, error };
    }),
    unary(Health.method.check, () => {
      const status = gateway.ready() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
      return { ok: true, value: { status } };
    }),
  ];
}
