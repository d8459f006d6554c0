import { NereidError } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';

export interface StartFailure {
  /** One line: what is wrong and how to mend it. */
  readonly text: string;
  readonly exitCode: ExitCode;
}

/** Where the services were to listen. */
export interface Listeners {
  readonly http: { readonly address: string; readonly port: number } | undefined;
  readonly metrics: { readonly address: string; readonly port: number } | undefined;
}

/** Deeper chains are no sensible error any more. */
const CAUSES_MAX = 8;

function* causes(thrown: unknown): Iterable<unknown> {
  let current = thrown;
  for (let depth = 0; depth < CAUSES_MAX && current !== undefined && current !== null; depth++) {
    yield current;
    current = typeof current === 'object' && 'cause' in current ? current.cause : undefined;
  }
}

interface ListenError {
  readonly code: string;
  readonly port: number | undefined;
}

function asListenError(thrown: unknown): ListenError | undefined {
  if (!(thrown instanceof Error) || !('syscall' in thrown) || !('code' in thrown)) return undefined;
  if (thrown.syscall !== 'listen' && thrown.syscall !== 'bind' && thrown.syscall !== 'getaddrinfo') return undefined;
  const port = 'port' in thrown && typeof thrown.port === 'number' ? thrown.port : undefined;
  return { code: String(thrown.code), port };
}

function listenText(failure: ListenError, listeners: Listeners): string {
  const service = failure.port !== undefined && failure.port === listeners.metrics?.port ? 'metrics' : 'http';
  const listener = listeners[service];
  const port = failure.port ?? listener?.port ?? 0;
  const where = `${listener?.address ?? ''}:${port}`;
  switch (failure.code) {
    case 'EADDRINUSE':
      return `${where} is in use: stop what listens there, or choose another port with --${service}-port`;
    case 'EACCES':
      return `no permission to listen at ${where}: choose a port above 1023 with --${service}-port`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${where} is no address of this machine: correct --${service}-address`;
    default:
      return `cannot listen at ${where}: ${failure.code}; see --${service}-address and --${service}-port`;
  }
}

/** Words of an error in one line. */
function oneLine(text: string): string {
  return text.trim().replace(/\s*\r?\n\s*/g, ' ');
}

/** What to print and how to end after `createServer` failed. */
export function startFailure(thrown: unknown, listeners: Listeners): StartFailure {
  for (const cause of causes(thrown)) {
    const listen = asListenError(cause);
    if (listen !== undefined) return { text: listenText(listen, listeners), exitCode: EXIT_CODE.failed };
  }
  const text = oneLine(thrown instanceof Error ? thrown.message : String(thrown));
  // Only what is wrong with repositories and models reaches here as a NereidError: options are checked before.
  return { text, exitCode: thrown instanceof NereidError ? EXIT_CODE.repository : EXIT_CODE.failed };
}
