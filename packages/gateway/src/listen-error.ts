import { NereidError } from '@nereid/protocol';

const CAUSES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'another process has that port',
  EACCES: 'this user may not open that port',
  EADDRNOTAVAIL: 'this machine does not have that address',
  ENOTFOUND: 'that host name is not known',
};

/** Why a listener could not start, with the flags that change it; `flags` is `http` or `metrics`. */
export function listenError(cause: unknown, address: string, port: number, flags: string): NereidError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const why = CAUSES[code] ?? (cause instanceof Error ? cause.message : String(cause));
  const fix = `choose another with --${flags}-port or --${flags}-address`;
  return new NereidError('UNAVAILABLE', `cannot listen on ${address}:${port}: ${why}; ${fix}`, { cause });
}
