/** Options of the gRPC door. Flags, meanings and defaults are Triton's (command_line_parser.cc). */
import { z } from 'zod';
import { type FlagMeta, flagMetas, GATEWAY } from './flag-meta.ts';

const grpc: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'gRPC', roles: GATEWAY };

const PORT_MAX = 65_535;
/** Of numbers, and of milliseconds: Node's timers take no longer delay. */
const INT32_MAX = 2_147_483_647;

/** Defaults that hold for the in-process API (`createServer`) too. */
export const GRPC_DEFAULTS = {
  address: '0.0.0.0',
  rules: {
    keepalive_time_ms: 7_200_000,
    keepalive_timeout_ms: 20_000,
    keepalivePermitWithoutCalls: false,
    pings_without_data_max: 2,
    ping_interval_min_ms: 300_000,
    ping_strikes_max: 2,
    age_max_ms: 0,
    age_grace_ms: 0,
  },
} as const;

const { rules } = GRPC_DEFAULTS;

export const GRPC_COMPRESSION_LEVELS = ['none', 'low', 'medium', 'high'] as const;

const text = (form: string, description: string) =>
  z
    .string()
    .default('')
    .register(flagMetas, { ...grpc, form, description });
const flag = (fallback: boolean, description: string) =>
  z
    .boolean()
    .default(fallback)
    .register(flagMetas, { ...grpc, description });
const count = (min: number, fallback: number, description: string) =>
  z
    .int()
    .min(min)
    .max(INT32_MAX)
    .default(fallback)
    .register(flagMetas, { ...grpc, description });
const milliseconds = (min: number, fallback: number, description: string) =>
  z
    .int()
    .min(min)
    .max(INT32_MAX)
    .default(fallback)
    .register(flagMetas, { ...grpc, form: '<ms>', description });

export const grpcOptions = {
  allowGrpc: flag(true, 'Serve the v2 protocol over gRPC.'),
  grpcAddress: z
    .string()
    .min(1)
    .default(GRPC_DEFAULTS.address)
    .register(flagMetas, { ...grpc, description: 'The address that the gRPC server listens on.' }),
  grpcPort: z
    .int()
    .min(0)
    .max(PORT_MAX)
    .default(8001)
    .register(flagMetas, { ...grpc, description: 'The port that the gRPC server listens on; 0 for any free one.' }),
  grpcHeaderForwardPattern: text(
    '<pattern>',
    'Metadata whose names match reaches the model as string parameters of infer requests: an expression of RE2, which may match a part of the name, in any case unless it says `(?-i)`. Empty: none.',
  ),
  grpcRestrictedProtocol: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...grpc,
      secret: true,
      form: '<api>,…:<key>=<value>',
      description:
        'APIs that answer only where the metadata `triton-grpc-protocol-<key>` has the value: health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging. Repeat it for several keys. Set it in the environment or the file, since any user of the machine sees command lines.',
    }),
  grpcUseSsl: flag(false, 'Serve gRPC over TLS only, with the certificate of `--grpc-server-cert`.'),
  grpcUseSslMutual: flag(
    false,
    'Serve gRPC over TLS and only clients with a certificate that `--grpc-root-cert` has signed.',
  ),
  grpcServerCert: text(
    '<file>',
    'The certificate of the gRPC server, PEM, with those between it and its root behind it.',
  ),
  grpcServerKey: text('<file>', "That certificate's private key, PEM."),
  grpcRootCert: text('<file>', 'The certificates that sign those of clients, PEM, for `--grpc-use-ssl-mutual`.'),
  grpcInferResponseCompressionLevel: z
    .enum(GRPC_COMPRESSION_LEVELS)
    .default('none')
    .register(flagMetas, {
      ...grpc,
      description:
        'How hard answers of ModelInfer and ModelStreamInfer are compressed, by gzip or deflate, for clients that take it.',
    }),
  grpcKeepaliveTime: milliseconds(
    1,
    rules.keepalive_time_ms,
    'Silence of a client, in milliseconds, after which it is asked for a sign of life.',
  ),
  grpcKeepaliveTimeout: milliseconds(
    1,
    rules.keepalive_timeout_ms,
    'Milliseconds that the sign may take; longer ends the connection.',
  ),
  grpcKeepalivePermitWithoutCalls: flag(
    rules.keepalivePermitWithoutCalls,
    'Ask also clients that have no call open, and let them ask the server as often.',
  ),
  grpcHttp2MaxPingsWithoutData: count(
    0,
    rules.pings_without_data_max,
    'Times in a row that the server asks without sending anything else between; 0 for any number.',
  ),
  grpcHttp2MinRecvPingIntervalWithoutData: milliseconds(
    0,
    rules.ping_interval_min_ms,
    'Milliseconds between two pings of a client without anything else sent to it between.',
  ),
  grpcHttp2MaxPingStrikes: count(
    0,
    rules.ping_strikes_max,
    'Pings sooner than that after which one more ends the connection as `too_many_pings`; 0 for any number.',
  ),
  grpcMaxConnectionAge: milliseconds(
    0,
    rules.age_max_ms,
    'Milliseconds that a connection may live, give or take a tenth; its client opens another. 0 for any time.',
  ),
  grpcMaxConnectionAgeGrace: milliseconds(
    0,
    rules.age_grace_ms,
    'Milliseconds that its calls may go on after that; 0 for any time.',
  ),
};

/** Those options, defaulted. */
type GrpcOptions = { readonly [K in keyof typeof grpcOptions]: z.output<(typeof grpcOptions)[K]> };

/** What is wrong between options of gRPC that are each right, naming the flags; undefined if nothing. */
export function grpcConflict(options: GrpcOptions): string | undefined {
  if (!options.allowGrpc || (!options.grpcUseSsl && !options.grpcUseSslMutual)) return undefined;
  const asked = options.grpcUseSslMutual ? '--grpc-use-ssl-mutual' : '--grpc-use-ssl';
  if (options.grpcServerCert === '' || options.grpcServerKey === '') {
    return `${asked} needs --grpc-server-cert and --grpc-server-key: give both`;
  }
  if (options.grpcUseSslMutual && options.grpcRootCert === '') {
    return '--grpc-use-ssl-mutual needs --grpc-root-cert: give the certificates that sign those of clients';
  }
  return undefined;
}
