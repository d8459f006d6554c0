import type { SecureContextOptions, TlsOptions } from 'node:tls';
import { LIMITS } from '@nereid/config';
import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Result } from './result.ts';
import { readTlsFiles, type TlsContents, type TlsFiles, type TlsFlags, watchTlsFiles } from './tls-files.ts';

/** What a door is served with over TLS. */
export interface DoorTls {
  readonly files: TlsFiles;
  readonly flags: TlsFlags;
  readonly contents: TlsContents;
}

const HTTP_FLAGS: TlsFlags = { cert: 'http-tls-cert', key: 'http-tls-key', clientCa: 'http-tls-client-ca' };
const GRPC_FLAGS: TlsFlags = { cert: 'grpc-server-cert', key: 'grpc-server-key', clientCa: 'grpc-root-cert' };

/** Reads the files; the error names the flag at fault. */
export function readDoorTls(door: 'http' | 'grpc', files: TlsFiles): Result<DoorTls> {
  const flags = door === 'http' ? HTTP_FLAGS : GRPC_FLAGS;
  const read = readTlsFiles(files, flags);
  return read.ok ? { ok: true, value: { files, flags, contents: read.value } } : read;
}

/** For Node's server: with a CA of clients, those without a certificate that it has signed are refused. */
export function doorTlsOptions({ contents }: DoorTls): TlsOptions {
  const isMutual = contents.ca !== undefined;
  return {
    ...secureContext(contents),
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
    handshakeTimeout: LIMITS.header_timeout_ms,
  };
}

/** What of Node's servers takes other certificates. */
interface TlsServer {
  setSecureContext(options: SecureContextOptions): void;
}

/** Has the server take what stands in the files when they change. */
export function watchDoorTls(tls: DoorTls, server: TlsServer, clock: Clock, log: Log): Timer {
  const apply = (changed: TlsContents) => server.setSecureContext(secureContext(changed));
  return watchTlsFiles({ ...tls, clock, log, apply });
}

function secureContext({ cert, key, ca }: TlsContents): SecureContextOptions {
  return { cert, key, ...(ca === undefined ? {} : { ca }) };
}
