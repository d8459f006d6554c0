import { type ExpandedInstance, readHostPolicies } from '@nereid/config';
import { describe, expect, test } from 'vitest';
import { coreList, hostLaunches, type TriedCommand } from './host-launches.ts';
import { tryCommand } from './try-command.ts';

/** A machine of 8 cores and one node, with those programs. */
function machine(programs: readonly string[] = ['taskset', 'numactl']) {
  const tried: string[] = [];
  const run = async (command: readonly string[]): Promise<TriedCommand> => {
    tried.push(command.join(' '));
    const [program = '', ...args] = command;
    if (!programs.includes(program)) return { kind: 'absent' };
    if (program === 'numactl') {
      return args.includes('--membind=0')
        ? { kind: 'ran', output: '' }
        : { kind: 'failed', words: 'libnuma: Warning: node argument 9 is out of range' };
    }
    const cores = Array.from({ length: 8 }, (_, core) => core);
    const list = args[1] ?? '';
    const [asked] = [readHostPolicies([`x,cpu-cores=${list}`])?.get('x')?.cores ?? []];
    const had = asked.filter((core) => cores.includes(core));
    if (had.length === 0) return { kind: 'failed', words: "taskset: failed to set pid 1's affinity: Invalid argument" };
    return { kind: 'ran', output: `Name:\tcat\nCpus_allowed:\tff\nCpus_allowed_list:\t${coreList(had)}\nMems:\t0\n` };
  };
  const warnings: string[] = [];
  const log = { warn: (_fields: object, text: string) => warnings.push(text) } as never;
  return { run, log, tried, warnings };
}

const policiesOf = (...entries: string[]) => {
  const policies = readHostPolicies(entries);
  if (policies === undefined) throw new Error('no policies');
  return policies;
};

/** An instance under the policy of that name. */
const under = (hostPolicy: string): ExpandedInstance => ({
  index: 0,
  name: 'm_0',
  group: 'm',
  device: { kind: 'cpu', id: 0 },
  passive: false,
  hostPolicy,
});

test.each<[readonly number[], string]>([
  [[0, 1, 2, 3, 8], '0-3,8'],
  [[5], '5'],
  [[0, 2, 4, 5], '0,2,4-5'],
])('the list of cores %j is %s', (cores, text) => {
  expect(coreList(cores)).toBe(text);
});

describe('a policy is started by', () => {
  test.each<[string, string[], string | undefined]>([
    ['taskset for cores', ['p,cpu-cores=0-3,6'], 'taskset -c 0-3,6'],
    ['numactl for a node, with its cores', ['p,numa-node=0'], 'numactl --membind=0 --cpunodebind=0'],
    [
      'both where it has both, the cores as they are named',
      ['p,numa-node=0', 'p,cpu-cores=1'],
      'numactl --membind=0 taskset -c 1',
    ],
  ])('%s', async (_name, entries, expected) => {
    const { run, log, warnings } = machine();
    const launches = await hostLaunches(policiesOf(...entries), run, log);
    expect(launches(under('p'))?.prefix.join(' ')).toBe(expected);
    expect(warnings).toEqual([]);
  });

  test('nothing, with a warning, where its program is missing; the other still counts', async () => {
    const { run, log, warnings } = machine(['taskset']);
    const policies = policiesOf('both,numa-node=0', 'both,cpu-cores=1', 'node,numa-node=0');
    const launches = await hostLaunches(policies, run, log);
    expect(launches(under('both'))).toEqual({ prefix: ['taskset', '-c', '1'] });
    expect(launches(under('node'))).toBeUndefined();
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toContain('no numactl');
    const without = machine([]);
    const unbound = await hostLaunches(policiesOf('a,cpu-cores=0-1'), without.run, without.log);
    expect(unbound(under('a'))).toBeUndefined();
    expect(without.warnings).toEqual([
      'host policy: this machine has no taskset (util-linux), so instances are not bound to cores 0-1',
    ]);
  });
});

describe('refused at the start', () => {
  test.each<[string, string, RegExp]>([
    [
      'some cores that there are not',
      'p,cpu-cores=6-9',
      /^--host-policy: p,cpu-cores=6-9: this process cannot use core 8-9;/,
    ],
    ['none that there is', 'p,cpu-cores=20', /this process cannot use core 20; give cores/],
    [
      'a node that there is not',
      'p,numa-node=9',
      /^--host-policy: p,numa-node=9 cannot be had \(libnuma: .* out of range\); give a node/,
    ],
  ])('%s', async (_name, entry, message) => {
    const { run, log } = machine();
    await expect(hostLaunches(policiesOf(entry), run, log)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      field: 'host-policy',
      reason: 'bad_option',
      message: expect.stringMatching(message),
    });
  });
});

test('an instance is started by its policy; a name that no policy has is told, but not those of every machine', async () => {
  const { run, log, warnings } = machine();
  const launches = await hostLaunches(policiesOf('cpu,cpu-cores=1'), run, log);
  expect(launches(under('cpu'))).toEqual({ prefix: ['taskset', '-c', '1'] });
  expect(['model', 'gpu_3'].map((name) => launches(under(name)))).toEqual([undefined, undefined]);
  expect(warnings).toEqual([]);
  expect(launches(under('mine'))).toBeUndefined();
  expect(warnings).toEqual(["there is no --host-policy named 'mine': the instance is not bound"]);
});

test('commands of this machine: one that runs, one that fails with its first words, one that is not there', async () => {
  expect(await tryCommand(['cat', '/proc/self/status'])).toMatchObject({
    kind: 'ran',
    output: expect.stringContaining('Cpus_allowed_list'),
  });
  expect(await tryCommand(['sh', '-c', 'printf "\nno such node\nusage: …\n" >&2; exit 1'])).toEqual({
    kind: 'failed',
    words: 'no such node',
  });
  expect(await tryCommand(['no-such-program-at-all'])).toEqual({ kind: 'absent' });
});
