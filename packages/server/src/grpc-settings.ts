import { compileForwardPattern, type GrpcServerOptions, parseRestricted, readDoorTls } from '@nereid/gateway';
import type { GrpcOptions } from './server-options.ts';
import { settingValue } from './setting-value.ts';

/** What only its user can judge of the gRPC options, read: a pattern, keys, files. */
export type GrpcSettings = Pick<GrpcServerOptions, 'restricted' | 'forwards' | 'tls'>;

/** Throws INVALID_ARG that names the flag where one of them cannot be used. */
export function grpcSettings({ headerForwardPattern: pattern, restrictedProtocol, tls }: GrpcOptions): GrpcSettings {
  return {
    restricted: settingValue(parseRestricted(restrictedProtocol ?? [], 'grpc-restricted-protocol')),
    ...(pattern === undefined
      ? {}
      : { forwards: settingValue(compileForwardPattern(pattern, 'grpc-header-forward-pattern')) }),
    ...(tls === undefined ? {} : { tls: settingValue(readDoorTls('grpc', tls)) }),
  };
}
