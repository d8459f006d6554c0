import { type Options, parseOptions } from '@nereid/config';
import { type Clock, createLog, type Log } from '@nereid/runtime';
import type { Server, ServerOptions } from '@nereid/server';
import { announceModels, announceServices } from './announce.ts';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { logDestination, logGate, lowestLevel, type WriteText } from './log-destination.ts';
import { checkRepository } from './repository-check.ts';
import { serverOptions } from './server-options.ts';
import { startFailure } from './start-failure.ts';
import type { ListenForSignals, StopSignal } from './stop-signals.ts';

/** What `serve` takes from the process that it runs in. */
export interface ServeProcess {
  readonly pid: number;
  readonly hostName: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly stdout: WriteText;
  readonly stderr: WriteText;
  readonly listenForSignals: ListenForSignals;
  readonly readFile: (path: string) => string;
  /** Opens a log file to append to; throws where it cannot. */
  readonly openLogFile: (path: string) => WriteText;
  readonly createServer: (options: ServerOptions) => Promise<Pick<Server, 'urls' | 'models' | 'loadFailures' | 'stop'>>;
}

type Running = Awaited<ReturnType<ServeProcess['createServer']>>;

/**
 * `nereid serve`: starts a server, tells what it serves, and stops it in order at the first signal.
 * Every failure is one line on standard error.
 */
export async function serve(argv: readonly string[], host: ServeProcess): Promise<ExitCode> {
  const fail = (text: string, exitCode: ExitCode): ExitCode => {
    host.stderr(`nereid serve: ${text}\n`);
    return exitCode;
  };
  const parsed = parseOptions({ argv, env: host.env, readFile: host.readFile });
  if (!parsed.ok) return fail(parsed.error, EXIT_CODE.usage);
  const { options } = parsed;

  const opened = openLog(options, host);
  if (!opened.ok) return fail(opened.error, EXIT_CODE.failed);
  const { log } = opened;
  for (const warning of parsed.warnings) log.warn(warning);
  const unusable = await checkRepositories(options.modelRepository, log);
  if (unusable !== undefined) return fail(unusable, EXIT_CODE.repository);

  // Later signals settle nothing: the stop is under way.
  const signalled = new Promise<StopSignal>((resolve) => host.listenForSignals(resolve));
  try {
    const starting = host.createServer(serverOptions(options, log));
    // A signal during the start ends the waiting for it, not the start: that is stopped when it is there.
    const server = await Promise.race([starting, signalled.then(() => undefined)]);
    if (server !== undefined) announceModels(server, options, log);
    if (server !== undefined && options.exitOnError && server.loadFailures.length > 0) {
      await stopWithin(options.exitTimeoutSecs, starting, host.clock, log);
      return fail(loadFailureText(server.loadFailures), EXIT_CODE.repository);
    }
    if (server !== undefined) announceServices(server, options, log);
    log.info(`${await signalled} received: stopping`);
    return await stopWithin(options.exitTimeoutSecs, starting, host.clock, log);
  } catch (failure) {
    const { text, exitCode } = startFailure(failure);
    return fail(text, exitCode);
  }
}

const FAILURES_NAMED_MAX = 8;

function loadFailureText(failures: Running['loadFailures']): string {
  const named = failures.slice(0, FAILURES_NAMED_MAX).map(({ model, error }) => {
    const why = error.message.trim().replace(/;$/, '').replace(/\s+/g, ' ');
    return `${model} (${why})`;
  });
  const more = failures.length > named.length ? ` and ${failures.length - named.length} more` : '';
  return `failed to load ${named.join(', ')}${more}: mend or remove, or start with --exit-on-error=false`;
}

type OpenedLog = { readonly ok: true; readonly log: Log } | { readonly ok: false; readonly error: string };

function openLog(options: Options, host: ServeProcess): OpenedLog {
  let low = host.stdout;
  let high = host.stderr;
  if (options.logFile !== '') {
    try {
      low = host.openLogFile(options.logFile);
      high = low;
    } catch (failure) {
      const why = failure instanceof Error ? failure.message : String(failure);
      return { ok: false, error: `cannot append to the log file: ${why}; correct --log-file` };
    }
  }
  const gate = logGate(options);
  const { logOutput: output, logFormat: format } = options;
  const destination = logDestination({ gate, output, format, pid: host.pid, low, high });
  const node = options.nodeId === '' ? host.hostName : options.nodeId;
  return { ok: true, log: createLog({ level: lowestLevel(gate), bindings: { node }, destination }) };
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

/** Stops the server, or gives up when the time is over: then the caller ends the process. */
async function stopWithin(timeoutS: number, starting: Promise<Running>, clock: Clock, log: Log): Promise<ExitCode> {
  const stopping = stopServer(starting, timeoutS * 1000, log);
  let expire = () => {};
  const expired = new Promise<'expired'>((resolve) => {
    expire = () => resolve('expired');
  });
  const timer = clock.at(clock.nowUs() + timeoutS * 1e6, expire);
  const ended = await Promise.race([stopping, expired]);
  timer.cancel();
  if (ended !== 'expired') return ended;
  log.error('Exit timeout expired. Exiting immediately.');
  return EXIT_CODE.failed;
}

async function stopServer(starting: Promise<Running>, deadlineMs: number, log: Log): Promise<ExitCode> {
  let server: Running;
  try {
    server = await starting;
  } catch {
    // A start that was interrupted and then failed has stopped what it had started: nothing is left.
    return EXIT_CODE.stopped;
  }
  try {
    await server.stop({ deadlineMs });
    return EXIT_CODE.stopped;
  } catch (err) {
    log.error({ err }, 'stopping failed');
    return EXIT_CODE.failed;
  }
}
