import { type FlagRole, type Options, parseOptions } from '@nereid/config';
import type { Clock, Log } from '@nereid/runtime';
import type { RoleProcess, ServerOptions } from '@nereid/server';
import { type Announced, announceModels, announceServices } from './announce.ts';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type StoppableServer, stopWithin } from './graceful-stop.ts';
import { answerKeeper } from './kept-worker.ts';
import { mallocProblem } from './malloc.ts';
import { type LogHost, openLog } from './open-log.ts';
import { checkRepository } from './repository-check.ts';
import { isKeeper, type KeptHost, runKept, workerLimits } from './run-kept.ts';
import { serverOptions } from './server-options.ts';
import { startFailure } from './start-failure.ts';
import type { ListenForSignals, StopSignal } from './stop-signals.ts';

/** The commands that run until a signal: all roles in one process, or one of them. */
export type RunCommand = 'serve' | FlagRole;

/** What they start. */
export type Running = Announced & StoppableServer & Pick<RoleProcess, 'holdings'>;

/** What a command takes from the process that it runs in. */
export interface RunHost extends LogHost, KeptHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly listenForSignals: ListenForSignals;
  readonly readFile: (path: string) => string;
  /** Ends the process without any clean-up. */
  readonly kill: () => void;
  readonly start: Readonly<Record<RunCommand, (options: ServerOptions) => Promise<Running>>>;
}

/**
 * `nereid serve`, `gateway`, `coordinator` and `worker`: starts the server or its one role, tells
 * what it serves, and stops it in order at the first signal. Every failure is one line on standard
 * error.
 */
export async function run(command: RunCommand, argv: readonly string[], host: RunHost): Promise<ExitCode> {
  const fail = (text: string, exitCode: ExitCode): ExitCode => {
    host.stderr(`nereid ${command}: ${text.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
    return exitCode;
  };
  const { env, readFile } = host;
  const parsed = parseOptions({ argv, env, readFile, ...(command === 'serve' ? {} : { role: command }) });
  if (!parsed.ok) return fail(parsed.error, EXIT_CODE.usage);
  const { options } = parsed;
  const unlike = mallocProblem(options.malloc, () => readFile('/proc/self/maps'));
  if (unlike !== undefined) return fail(unlike, EXIT_CODE.usage);

  const opened = openLog(command, options, host);
  if (!opened.ok) return fail(opened.error, EXIT_CODE.failed);
  const { log, control } = opened;
  for (const warning of parsed.warnings) log.warn(warning);
  if (isKeeper(command, options, host)) {
    const ended = await runKept(argv, options, log, host);
    if (typeof ended === 'number') return ended;
    const { text, exitCode } = startFailure(ended.failure);
    return fail(text, exitCode);
  }
  const unusable = await checkRepositories(options.modelRepository, log);
  if (unusable !== undefined) return fail(unusable, EXIT_CODE.repository);

  // Later signals settle nothing: the stop is under way.
  const signalled = new Promise<StopSignal>((resolve) => host.listenForSignals(resolve));
  try {
    const starting = host.start[command](serverOptions(options, { log, control }, env));
    const { clock, kill } = host;
    const stop = (pauseMs: number) =>
      stopWithin({ starting, timeoutS: options.exitTimeoutSecs, pauseMs, clock, log, kill });
    // A signal during the start ends the waiting for it, not the start: that is stopped when it is there.
    const server = await Promise.race([starting, signalled.then(() => undefined)]);
    if (server !== undefined && LOADS_MODELS[command]) announceModels(server, options, log);
    if (server !== undefined && options.exitOnError && server.loadFailures.length > 0) {
      await stop(0);
      return fail(loadFailureText(server.loadFailures), EXIT_CODE.repository);
    }
    if (server !== undefined) announceServices(command, server, options, log);
    const retired = server === undefined ? signalled : retirement(server, options, log, host);
    const why = await Promise.race([signalled, retired]);
    if (why === RETIRED) {
      // A signal bounds what its sequences may take.
      await Promise.race([server?.stop({ deadlineMs: RETIRED_MS_MAX }), signalled.then(() => stop(0))]);
      return EXIT_CODE.stopped;
    }
    log.info(`${why} received: stopping`);
    // Nobody sends requests to a server that was never there.
    return await stop(server === undefined ? 0 : options.drainPauseMs);
  } catch (failure) {
    const { text, exitCode } = startFailure(failure);
    return fail(text, exitCode);
  }
}

const RETIRED = 'retired';
/** A day: what a retired worker's sequences may take. Those that nobody goes on with end by their idle time. */
const RETIRED_MS_MAX = 86_400_000;

/** Of a worker that is kept: when another serves in its place. */
async function retirement(server: Running, options: Options, log: Log, host: RunHost): Promise<typeof RETIRED> {
  const { keeper, clock, residentBytes } = host;
  if (keeper === undefined) return new Promise(() => {});
  await answerKeeper({ server, keeper, limits: workerLimits(options), clock, log, residentBytes });
  log.info('another worker serves in its place: ending what was accepted');
  return RETIRED;
}

/** Whose start ends when its models are loaded, so that their table means something. */
const LOADS_MODELS: Readonly<Record<RunCommand, boolean>> = {
  serve: true,
  coordinator: true,
  gateway: false,
  worker: false,
};

const FAILURES_NAMED_MAX = 8;

function loadFailureText(failures: Running['loadFailures']): string {
  const named = failures.slice(0, FAILURES_NAMED_MAX).map(({ model, error }) => {
    const why = error.message.trim().replace(/;$/, '').replace(/\s+/g, ' ');
    return `${model} (${why})`;
  });
  const more = failures.length > named.length ? ` and ${failures.length - named.length} more` : '';
  return `failed to load ${named.join(', ')}${more}: mend or remove, or start with --exit-on-error=false`;
}

/** The first repository that cannot be served, in words. One without models is only warned about. */
async function checkRepositories(paths: readonly string[], log: Log): Promise<string | undefined> {
  for (const path of paths) {
    const finding = await checkRepository(path);
    if (finding.kind === 'unusable') return finding.text;
    if (finding.kind === 'empty') log.warn(finding.text);
  }
  return undefined;
}
