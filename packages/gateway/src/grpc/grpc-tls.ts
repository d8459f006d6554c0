import type { SecureContextOptions, TlsOptions } from 'node:tls';
import { LIMITS } from '@nereid/config';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { readTlsFiles, type TlsContents, type TlsContentsRead, type TlsFiles, watchTlsFiles } from '../tls-files.ts';

/** What gRPC over TLS is served with. */
export interface GrpcTls {
  readonly files: TlsFiles;
  readonly contents: TlsContents;
}

const FLAGS = { cert: 'grpc-server-cert', key: 'grpc-server-key', clientCa: 'grpc-root-cert' } as const;

/** The contents of the files; the error names the flag at fault. */
export function readGrpcTlsFiles(files: TlsFiles): TlsContentsRead {
  return readTlsFiles(files, FLAGS);
}

/** For Node's server: with a CA of clients, those without a certificate that it has signed are refused. */
export function grpcTlsOptions({ contents }: GrpcTls): TlsOptions {
  const isMutual = contents.ca !== undefined;
  return {
    ...secureContext(contents),
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
    handshakeTimeout: LIMITS.header_timeout_ms,
  };
}

/** What of Node's server takes other certificates. */
interface TlsServer {
  setSecureContext(options: SecureContextOptions): void;
}

/** Has the server take what stands in the files when they change. */
export function watchGrpcTls({ files, contents }: GrpcTls, server: TlsServer, clock: Clock, log: Log): Timer {
  const apply = (changed: TlsContents) => server.setSecureContext(secureContext(changed));
  return watchTlsFiles({ files, flags: FLAGS, contents, clock, log, apply });
}

function secureContext({ cert, key, ca }: TlsContents): SecureContextOptions {
  return { cert, key, ...(ca === undefined ? {} : { ca }) };
}
