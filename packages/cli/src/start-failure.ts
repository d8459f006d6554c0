import { BAD_OPTION } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';

export interface StartFailure {
  /** One line: what is wrong and how to mend it. */
  readonly text: string;
  readonly exitCode: ExitCode;
}

/** Deeper chains are no sensible error any more. */
const CAUSES_MAX = 8;
const LISTEN_SYSCALLS: ReadonlySet<unknown> = new Set(['listen', 'bind', 'getaddrinfo']);

/** An error and what caused it, outermost first. */
function causes(thrown: unknown): readonly unknown[] {
  const chain: unknown[] = [];
  for (let cause = thrown; cause !== undefined && chain.length < CAUSES_MAX; ) {
    chain.push(cause);
    cause = cause instanceof Error ? cause.cause : undefined;
  }
  return chain;
}

function isListenError(cause: unknown): boolean {
  return cause instanceof Error && 'syscall' in cause && LISTEN_SYSCALLS.has(cause.syscall);
}

/** By the `reason` of a NereidError; of those about the private Redis and its folder too, and about an option. */
const EXIT_CODE_OF: Readonly<Record<string, ExitCode>> = {
  redis_unusable: EXIT_CODE.redis,
  embedded_redis: EXIT_CODE.redis,
  data_directory: EXIT_CODE.failed,
  [BAD_OPTION]: EXIT_CODE.usage,
};

/**
 * What to print and how to end after a start failed. A NereidError says what to mend: it has the
 * reason of a Redis or an option, or is about a listener, or else about repositories and models.
 */
export function startFailure(thrown: unknown): StartFailure {
  const chain = causes(thrown);
  const known = chain.find((cause) => cause instanceof NereidError);
  const told = known ?? thrown;
  const text = told instanceof Error ? told.message : String(told);
  return { text: text.trim().replace(/\s*\r?\n\s*/g, ' '), exitCode: exitCodeOf(known, chain) };
}

function exitCodeOf(known: NereidError | undefined, chain: readonly unknown[]): ExitCode {
  if (known === undefined) return EXIT_CODE.failed;
  const ofReason = known.reason === undefined ? undefined : EXIT_CODE_OF[known.reason];
  return ofReason ?? (chain.some(isListenError) ? EXIT_CODE.failed : EXIT_CODE.repository);
}
