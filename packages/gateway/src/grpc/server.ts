import { type BytesInFlight, createBytesInFlight } from '@nereid/caller';
import { GRPC_DEFAULTS, LIMITS } from '@nereid/config';
import type { Clock } from '@nereid/runtime';
import type { DoorTls } from '../door-tls.ts';
import { isLoopback } from '../loopback.ts';
import type { RestrictedApis } from '../restricted.ts';
import { createSharedMemory, type SharedMemory } from '../shared-memory.ts';
import type { CallContext } from './call-context.ts';
import { grpcCalls } from './calls.ts';
import type { ConnectionRules } from './connection-care.ts';
import { createHttp2Transport } from './http2-transport.ts';
import { restrictedRefusal } from './restricted-calls.ts';
import type { GrpcTransport } from './transport.ts';

export interface GrpcServerOptions
  extends Omit<CallContext, 'forwards' | 'sharedMemory' | 'bytesInFlight' | 'onLoopback'> {
  readonly clock: Clock;
  readonly address: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly tls?: DoorTls | undefined;
  /** By default those of Triton's flags. */
  readonly rules?: Partial<ConnectionRules> | undefined;
  /** `none` (the default), `low`, `medium` or `high`: how the answers of inference are compressed. */
  readonly compressionLevel?: string | undefined;
  readonly restricted?: RestrictedApis | undefined;
  readonly forwards?: CallContext['forwards'];
  /** Of this gateway, whatever door they came by; of this server alone without it. */
  readonly bytesInFlight?: BytesInFlight | undefined;
  /** Of this gateway, whatever door they came by. Without it nothing can be registered. */
  readonly sharedMemory?: SharedMemory | undefined;
  /** A larger message is refused, as gRPC's own bound by default. */
  readonly message_bytes_max?: number | undefined;
}

/** Triton's gRPC service and the standard health service. */
export function createGrpcServer(options: GrpcServerOptions): GrpcTransport {
  const { clock, log, address, port, tls, restricted } = options;
  const bytesInFlight = options.bytesInFlight ?? createBytesInFlight(LIMITS.bytes_in_flight_max);
  const sharedMemory = options.sharedMemory ?? createSharedMemory(false);
  return createHttp2Transport({
    calls: grpcCalls({
      ...options,
      forwards: options.forwards,
      sharedMemory,
      bytesInFlight,
      onLoopback: isLoopback(address),
    }),
    refusal: (call, metadata) =>
      restricted === undefined || restricted.size === 0 ? undefined : restrictedRefusal(restricted, call, metadata),
    clock,
    log,
    address,
    port,
    ...(tls === undefined ? {} : { tls }),
    rules: { ...GRPC_DEFAULTS.rules, ...options.rules },
    compressionLevel: options.compressionLevel ?? 'none',
    bytesInFlight,
    message_bytes_max: options.message_bytes_max ?? LIMITS.grpc_message_bytes_max,
    calls_per_connection_max: LIMITS.grpc_calls_per_connection_max,
  });
}
