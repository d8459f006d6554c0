/**
 * Host policies as commands that start an instance's process under them: `taskset` binds it to processor cores,
 * `numactl` to a node's memory. Each is tried once, when the worker starts, so that what a machine does not have ends
 * the start and not the load of a model.
 */
import { badOption, type ExpandedInstance, type HostPolicy, readCores } from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { InstanceLaunch } from './process-line.ts';

/** How an instance is started by the policy that it is under; undefined where that leaves it as it is. */
export type HostLaunches = (instance: ExpandedInstance) => InstanceLaunch | undefined;

export type TriedCommand =
  | { readonly kind: 'ran'; readonly output: string }
  /** There is no such program. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly words: string };

/** Runs a command to its end; the seam at which tests say what a machine has. */
export type TryCommand = (command: readonly string[]) => Promise<TriedCommand>;

/** The names that instances are under by themselves, whether or not there are policies of these names. */
const DEFAULT_NAME = /^(?:cpu|model|gpu_\d+)$/;
const ALLOWED_CORES = /^Cpus_allowed_list:\s*(\S+)$/m;

/**
 * Tries each policy; one of which this machine can do nothing leaves its instances as they are. Throws INVALID_ARG that
 * names `--host-policy` for cores and nodes that cannot be had; warns where the program for them is missing.
 */
export async function hostLaunches(
  policies: ReadonlyMap<string, HostPolicy>,
  tryCommand: TryCommand,
  log: Log,
): Promise<HostLaunches> {
  const launches = new Map<string, InstanceLaunch>();
  for (const [name, policy] of policies) {
    const { node, cores } = policy;
    const memory = node === undefined ? [] : await nodePrefix(name, node, cores === undefined, tryCommand, log);
    const processor = cores === undefined ? [] : await coresPrefix(name, cores, tryCommand, log);
    const prefix = [...memory, ...processor];
    if (prefix.length > 0) launches.set(name, { prefix });
  }
  return ({ name, hostPolicy }) => {
    if (!policies.has(hostPolicy) && !DEFAULT_NAME.test(hostPolicy)) {
      log.warn({ instance: name }, `there is no --host-policy named '${hostPolicy}': the instance is not bound`);
    }
    return launches.get(hostPolicy);
  };
}

async function nodePrefix(name: string, node: number, alone: boolean, tryCommand: TryCommand, log: Log) {
  const prefix = ['numactl', `--membind=${node}`, ...(alone ? [`--cpunodebind=${node}`] : [])];
  const tried = await tryCommand([...prefix, 'true']);
  if (tried.kind === 'absent') {
    log.warn(
      { policy: name },
      `host policy: this machine has no numactl, so instances are not bound to NUMA node ${node}`,
    );
    return [];
  }
  if (tried.kind === 'failed') {
    refuse(`${name},numa-node=${node} cannot be had (${tried.words}); give a node that \`numactl --hardware\` lists`);
  }
  return prefix;
}

async function coresPrefix(name: string, cores: readonly number[], tryCommand: TryCommand, log: Log) {
  const list = coreList(cores);
  const prefix = ['taskset', '-c', list];
  const tried = await tryCommand([...prefix, 'cat', '/proc/self/status']);
  if (tried.kind === 'absent') {
    log.warn(
      { policy: name },
      `host policy: this machine has no taskset (util-linux), so instances are not bound to cores ${list}`,
    );
    return [];
  }
  // Cores that there are not are left out without a word as long as one is left.
  const had = tried.kind === 'ran' ? readCores(ALLOWED_CORES.exec(tried.output)?.[1] ?? '') : [];
  const missing = cores.filter((core) => had?.includes(core) !== true);
  if (missing.length > 0) {
    const why = `this process cannot use core ${coreList(missing)}`;
    refuse(`${name},cpu-cores=${list}: ${why}; give cores that \`lscpu -e\` lists and its container allows`);
  }
  return prefix;
}

function refuse(why: string): never {
  const { code, message, ...detail } = badOption('host-policy', why);
  throw new NereidError(code, message, detail);
}

/** `0-3,8`. */
export function coreList(cores: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const core of cores) {
    const range = ranges.at(-1);
    if (range !== undefined && range[1] === core - 1) range[1] = core;
    else ranges.push([core, core]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',');
}
