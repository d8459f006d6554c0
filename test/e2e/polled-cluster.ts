import { clusterOn, flagEnvironment, type MODES, type StartedProcess } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { serve } from './serve.ts';

/** A server, or a gateway, two coordinators and a worker that takes every model, over repositories that change. */
export interface PolledServer {
  readonly http: string;
  /** Of all processes that load models. */
  output(): string;
  stop(): Promise<readonly (number | null)[]>;
}

/** `flags` beside those that poll every second. */
export async function servePolled(
  mode: (typeof MODES)[number],
  repositories: readonly string[],
  flags: readonly string[] = [],
): Promise<PolledServer> {
  const all = ['--model-control-mode=poll', '--repository-poll-secs=1', '--exit-on-error=false', ...flags];
  if (mode === 'one') {
    const served = await serve(repositories, ['--strict-readiness=false', ...all]);
    return { http: served.http, output: served.output, stop: async () => [(await served.stop()).code] };
  }
  const redis = await startPrivateRedis();
  const cluster = clusterOn(
    redis,
    flagEnvironment([...all, ...repositories.map((path) => `--model-repository=${path}`)]),
  );
  const roles = ['gateway', 'coordinator', 'coordinator', 'worker'] as const;
  const running = roles.map((role) => cluster.start(role));
  let processes: readonly StartedProcess[];
  try {
    processes = await Promise.all(running.map(({ started }) => started));
  } catch (error) {
    for (const { process } of running) process.kill('SIGKILL');
    await redis.stop();
    throw error;
  }
  return {
    http: processes[0]?.http ?? '',
    output: () => processes.map(({ output }) => output()).join('\n'),
    async stop() {
      const codes: (number | null)[] = [];
      for (const each of processes) codes.push((await each.stop()).code);
      await redis.stop();
      return codes;
    },
  };
}
