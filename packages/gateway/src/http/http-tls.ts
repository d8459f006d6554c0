import type { Server } from 'node:https';
import type { TlsOptions } from 'node:tls';
import { LIMITS } from '@nereid/config';
import type { Clock, Log, Timer } from '@nereid/runtime';
import { readTlsFiles, type TlsContents, type TlsContentsRead, type TlsFiles, watchTlsFiles } from '../tls-files.ts';

/** What HTTP over TLS is served with. */
export interface HttpTls {
  readonly files: TlsFiles;
  readonly contents: TlsContents;
}

const FLAGS = { cert: 'http-tls-cert', key: 'http-tls-key', clientCa: 'http-tls-client-ca' } as const;

/** The contents of the files; the error names the flag at fault. */
export function readHttpTlsFiles(files: TlsFiles): TlsContentsRead {
  return readTlsFiles(files, FLAGS);
}

/** For Node's server: with a CA of clients, those without a certificate that it has signed are refused. */
export function tlsOptions({ contents }: HttpTls): TlsOptions {
  const isMutual = contents.ca !== undefined;
  return {
    ...secureContext(contents),
    requestCert: isMutual,
    rejectUnauthorized: isMutual,
    handshakeTimeout: LIMITS.header_timeout_ms,
  };
}

/** Has the server take what stands in the files when they change. */
export function watchHttpTls({ files, contents }: HttpTls, server: Server, clock: Clock, log: Log): Timer {
  const apply = (changed: TlsContents) => server.setSecureContext(secureContext(changed));
  return watchTlsFiles({ files, flags: FLAGS, contents, clock, log, apply });
}

function secureContext({ cert, key, ca }: TlsContents) {
  return { cert, key, ...(ca === undefined ? {} : { ca }) };
}
