import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { becomesOk } from '../deploy/setup/ready.mjs';
import { runCli } from './command.mjs';
import { startPrivateRedis } from './private-redis.mjs';

const READY_LIMIT_MS = 110_000;
const METRICS_AT = /Started Metrics Service at \S+:(\d+)/;
const HTTP_AT = /Started HTTPService at \S+:(\d+)/;
const GRPC_AT = /Started GRPCInferenceService at \S+:(\d+)/;
/** No model's name: a worker of this glob holds nothing. */
const NO_MODEL = '(none)';

/** The modes that NEREID_TEST_MODE asks for: `one`, `apart`, or `both`, which is also without it. */
export const MODES = modesNamed(process.env.NEREID_TEST_MODE ?? 'both');

function modesNamed(name) {
  if (name === 'both') return ['one', 'apart'];
  if (name === 'one' || name === 'apart') return [name];
  throw new Error(`NEREID_TEST_MODE=${name} is not allowed: give one, apart or both`);
}

/**
 * Runs the models of the repositories: in mode `one` by one `nereid serve`; in mode `apart` by a Redis of its own, two
 * gateways, a coordinator and two workers, each model on one of these, those of a list of `together` on the same.
 * Returns once every gateway is `until`: ready, or live where one of the models never is.
 */
export async function deploy(mode, repositories, flags = [], together = [], until = 'ready') {
  const environment = flagEnvironment([...flags, ...repositories.map((folder) => `--model-repository=${folder}`)]);
  return mode === 'one' ? deployOne(environment, until) : deployApart(repositories, environment, together, until);
}

async function deployOne(environment, until) {
  const processes = [startProcess('serve', [], environment)];
  return whenReady({ processes, gateways: processes, coordinators: processes, workers: processes, until });
}

async function deployApart(repositories, environment, together, until) {
  const redis = await startPrivateRedis();
  const cluster = clusterOn(redis, environment);
  const held = [[], []];
  for (const [index, names] of placements(repositories, together).entries()) held[index % held.length].push(...names);
  // All at once: none may need another to be there before it.
  const gateways = [cluster.start('gateway'), cluster.start('gateway')];
  const coordinators = [cluster.start('coordinator')];
  const workers = held.map((names) => cluster.start('worker', [workerModels(names)]));
  const processes = [...gateways, ...coordinators, ...workers];
  return whenReady({ processes, gateways, coordinators, workers, redis, until });
}

function workerModels(names) {
  return `--worker-models=${names.length === 0 ? NO_MODEL : names.join(',')}`;
}

/** The models in lists of those that stand together. */
function placements(repositories, together) {
  const lists = new Map();
  for (const name of modelNames(repositories)) {
    const key = together.find((names) => names.includes(name)) ?? name;
    lists.set(key, [...(lists.get(key) ?? []), name]);
  }
  return [...lists.values()];
}

function modelNames(repositories) {
  const entries = repositories.flatMap((folder) => readdirSync(folder, { withFileTypes: true }));
  return entries
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
}

/** Processes of one cluster. `environment` is theirs, as `flagEnvironment` gives it. */
export function clusterOn(redis, environment = {}) {
  return { start: (role, flags = []) => startProcess(role, [`--redis-url=${redis.url}`, ...flags], environment) };
}

/** Flags as variables: a role leaves those of other roles unread, while it would refuse them as flags. */
export function flagEnvironment(flags) {
  const values = {};
  for (const flag of flags) {
    const [, name, value] = /^--([^=]+)=(.*)$/.exec(flag);
    const variable = `NEREID_${name.toUpperCase().replaceAll('-', '_')}`;
    values[variable] = values[variable] === undefined ? value : `${values[variable]};${value}`;
  }
  return values;
}

/** Starts a process on free ports. It tells them only once it has started. */
function startProcess(command, flags, environment) {
  const hasHttp = command === 'serve' || command === 'gateway';
  const ports = ['--metrics-port=0', ...(hasHttp ? ['--http-port=0', '--grpc-port=0'] : [])];
  const running = runCli([command, ...ports, ...flags], environment);
  const address = async (line) => `http://127.0.0.1:${line.exec(await running.waitFor(line))[1]}`;
  const started = Promise.all([address(METRICS_AT), hasHttp ? address(HTTP_AT) : undefined]).then(
    // The line about metrics is the last one of the three.
    ([metrics, http]) => ({ ...running, role: command, metrics, http, grpc: grpcAddress(running.output()) }),
  );
  // Whoever waits for it sees why; one that is killed before is nobody's fault.
  started.catch(() => {});
  return { ...running, role: command, started };
}

/** Where it serves gRPC, undefined where it does not. */
function grpcAddress(output) {
  const port = GRPC_AT.exec(output)?.[1];
  return port === undefined ? undefined : `127.0.0.1:${port}`;
}

async function whenReady({ processes, gateways, coordinators, workers, redis, until }) {
  const roles = (of) => Promise.all(of.map(({ started }) => started));
  const stop = async () => {
    const endings = [];
    // As requests travel, so that what is under way can end.
    for (const role of ['serve', 'gateway', 'coordinator', 'worker']) {
      const ofRole = processes.filter((one) => one.role === role);
      endings.push(...(await Promise.all(ofRole.map((one) => one.stop()))));
    }
    await redis?.stop();
    return endings;
  };
  try {
    // A coordinator has started once its models are loaded, or wait for a worker; a gateway is ready with all of them.
    const started = await within(roles(processes));
    const doors = await within(roles(gateways));
    for (const { http, process } of doors) {
      const hasEnded = () => process.exitCode !== null || process.signalCode !== null;
      if (!(await becomesOk(`${http}/v2/health/${until}`, hasEnded, READY_LIMIT_MS)))
        throw new Error(`it is not ${until}`);
    }
    return {
      http: doors[0].http,
      metrics: (await within(roles(coordinators)))[0].metrics,
      gateways: doors,
      coordinators: await within(roles(coordinators)),
      workers: await within(roles(workers)),
      processes: started,
      redis,
      stop,
    };
  } catch (cause) {
    for (const one of processes) one.process.kill('SIGKILL');
    const endings = await Promise.all(processes.map(({ ended }) => ended));
    await redis?.stop();
    const outputs = endings.map(({ output }, index) => `== ${processes[index].role}\n${output}`);
    throw new Error(`not ready: ${cause.message}\n${outputs.join('\n')}`, { cause });
  }
}

async function within(promise) {
  const late = Symbol('late');
  const outcome = await Promise.race([promise, delay(READY_LIMIT_MS, late, { ref: false })]);
  if (outcome === late) throw new Error(`not started within ${READY_LIMIT_MS} ms`);
  return outcome;
}
