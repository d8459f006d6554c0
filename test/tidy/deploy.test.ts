import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type FlagRole, parseOptions } from '@nereid/config';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { environmentName, FLAGS } from '../../packages/config/src/flag-table.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string) => readFileSync(join(root, path), 'utf8');

const SYSTEMD = readdirSync(join(root, 'deploy/systemd')).map((file) => `deploy/systemd/${file}`);
const FILES = ['deploy/Dockerfile', 'deploy/compose.yaml', 'deploy/README.md', 'docs/running.md', ...SYSTEMD];

const VARIABLES: ReadonlySet<string> = new Set(
  FLAGS.flatMap((flag) => [flag.name, ...(flag.aliases ?? []).map(({ name }) => name)].map(environmentName)),
);
const FLAG_NAMES: ReadonlySet<string> = new Set(
  FLAGS.flatMap((flag) => [flag.name, ...(flag.aliases ?? []).map(({ name }) => name)]),
);
/** Commands of ours as they stand in pages, units and container files. */
const COMMAND = /(?:^|[\s`(])(?:nereid|\S*\/bin\/nereid) (serve|gateway|coordinator|worker)\b([^\n`#|&]*)/g;

type Environment = Readonly<Record<string, string>>;

/** NEREID_… names that no option has. */
function unknownVariables(text: string): readonly string[] {
  return [...text.matchAll(/\bNEREID_\w+/g)].map(([name]) => name).filter((name) => !VARIABLES.has(name));
}

/** `--flag` names, standing by themselves in text, that no option has. */
function unknownFlags(text: string): readonly string[] {
  return [...text.matchAll(/`--([a-z][a-z-]*)[=` ]/g)]
    .map(([, name = '']) => name)
    .filter((name) => !FLAG_NAMES.has(name));
}

/** Why a role does not start with these, or undefined. */
function optionsError(command: string, argv: readonly string[], env: Environment): string | undefined {
  const role = command === 'serve' ? {} : { role: command as FlagRole };
  const parsed = parseOptions({ argv, env, readFile: () => '', ...role });
  if (!parsed.ok) return parsed.error;
  return parsed.warnings.length === 0 ? undefined : parsed.warnings.join('; ');
}

/** What is wrong with the commands in a text, which are run with these variables. */
function commandErrors(text: string, env: Environment): readonly string[] {
  return [...text.replaceAll('\\\n', ' ').matchAll(COMMAND)].flatMap(([, command = '', rest = '']) => {
    const argv = rest.split(/\s+/).filter((word) => word.startsWith('--'));
    const error = optionsError(command, argv, env);
    return error === undefined ? [] : [`nereid ${command}${rest}: ${error}`];
  });
}

/** The assignments of an environment file. */
function assignments(text: string): Environment {
  return Object.fromEntries([...text.matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value = '']) => [name, value]));
}

function exitTimeoutSecs(env: Environment): number {
  const parsed = parseOptions({ argv: [], env, readFile: () => '', role: 'gateway' });
  return parsed.ok ? parsed.options.exitTimeoutSecs : Number.NaN;
}

describe('what the checks below find', () => {
  test.each([
    ['a variable of no option', () => unknownVariables('NEREID_HTTP_PORT NEREID_HTTP_PROT'), ['NEREID_HTTP_PROT']],
    ['a flag of no option', () => unknownFlags('`--http-port=1`, `--http-prot`'), ['http-prot']],
    ['an unknown option of a command', () => commandErrors('nereid worker --redis-ulr=redis://h', {}).length, 1],
    ["another role's option", () => commandErrors('\nnereid gateway --load-model=a', {}).length, 1],
    ['a missing one', () => commandErrors('ExecStart=/opt/bin/nereid gateway\n', {}).length, 1],
    ['none in a right one', () => commandErrors('$ nereid gateway --redis-url=redis://h # comment', {}), []],
  ])('%s', (_what, findings, expected) => {
    expect(findings()).toEqual(expected);
  });
});

describe.each(FILES)('%s', (file) => {
  test('names only variables and flags that exist', () => {
    expect(unknownVariables(read(file))).toEqual([]);
    if (file.endsWith('.md')) expect(unknownFlags(read(file))).toEqual([]);
  });
});

describe.each(FILES.filter((file) => file.endsWith('.md')))('the shell blocks of %s', (file) => {
  const blocks = [...read(file).matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block);
  // What a block exports holds for the commands after it.
  const exported = assignments(blocks.join('').replace(/^export /gm, ''));

  test('have commands that can be run', () => {
    expect(blocks.length).toBeGreaterThan(0);
    expect(commandErrors(blocks.join(''), exported)).toEqual([]);
  });

  test('set variables to values that they may have', () => {
    const env = { NEREID_MODEL_REPOSITORY: '/models', ...exported };
    expect(optionsError('serve', [], env)).toBeUndefined();
  });
});

describe('systemd', () => {
  const shared = assignments(read('deploy/systemd/nereid.env'));

  test.each(['gateway', 'coordinator', 'worker'])('the unit of the %s starts it with the shared settings', (role) => {
    const unit = read(`deploy/systemd/nereid-${role}@.service`);
    expect([...unit.matchAll(COMMAND)].map(([, command]) => command)).toEqual([role]);
    expect(commandErrors(unit, shared)).toEqual([]);
    expect(unit).toContain('EnvironmentFile=/etc/nereid/nereid.env\n');
    expect(unit).toContain(`EnvironmentFile=-/etc/nereid/${role}-%i.env\n`);
    expect(Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1])).toBeGreaterThan(exitTimeoutSecs(shared));
  });
});

interface Service {
  readonly image: string;
  readonly command: readonly string[];
  readonly environment?: Environment;
  readonly depends_on?: Readonly<Record<string, unknown>>;
  readonly volumes?: readonly unknown[];
  readonly stop_grace_period: string;
  readonly restart: string;
  readonly read_only?: boolean;
  readonly healthcheck?: unknown;
  readonly deploy?: { readonly replicas?: number };
}

describe('compose.yaml', () => {
  const { services } = parse(read('deploy/compose.yaml'), { merge: true }) as {
    readonly services: Readonly<Record<string, Service>>;
  };
  const dockerfile = read('deploy/Dockerfile');
  const imageEnvironment = Object.fromEntries(
    [...dockerfile.matchAll(/\b(NEREID_\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]),
  );
  const roles = Object.entries(services).filter(([, { image }]) => image === 'nereid');

  test('two of each role', () => {
    const counts: Record<string, number> = {};
    for (const [, { command, deploy }] of roles) {
      const [role = ''] = command;
      counts[role] = (counts[role] ?? 0) + (deploy?.replicas ?? 1);
    }
    expect(counts).toEqual({ gateway: 2, coordinator: 2, worker: 2 });
  });

  test.each(roles)('%s starts, is stopped in its time and begins again', (_name, service) => {
    const [role = '', ...argv] = service.command;
    const env = { ...imageEnvironment, ...service.environment };
    expect(optionsError(role, argv, env)).toBeUndefined();
    expect(Number.parseInt(service.stop_grace_period, 10)).toBeGreaterThan(exitTimeoutSecs(env));
    expect(service).toMatchObject({ restart: 'unless-stopped', read_only: true });
    for (const name of Object.keys(service.depends_on ?? {})) expect(services).toHaveProperty(name);
    expect(service.volumes ?? []).toEqual(
      role === 'gateway' ? [] : [expect.objectContaining({ target: env.NEREID_MODEL_REPOSITORY, read_only: true })],
    );
  });

  test('Redis keeps jobs and evicts nothing', () => {
    const redis = services.redis?.command.join(' ');
    for (const setting of ['--appendonly yes', '--appendfsync everysec', '--maxmemory-policy noeviction']) {
      expect(redis).toContain(setting);
    }
    expect(services.redis?.healthcheck).toBeDefined();
  });

  test('the image looks after its health on the port that it sets, not as root', () => {
    expect(imageEnvironment).toHaveProperty('NEREID_METRICS_PORT');
    expect(dockerfile).toMatch(/^HEALTHCHECK .*process\.env\.NEREID_METRICS_PORT.*\/v2\/health\/live/m);
    expect(dockerfile).toMatch(/^USER [1-9]\d*:[1-9]\d*$/m);
  });
});

test('the build context has what the Dockerfile builds from', () => {
  const allowed = [...read('.dockerignore').matchAll(/^!(.+)$/gm)].map(([, path]) => path);
  const copied = [...read('deploy/Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, paths = '']) =>
    paths.split(' '),
  );
  expect(allowed).toEqual(expect.arrayContaining(copied.filter((path) => path !== '.')));
  const projects = ['packages', 'tsconfig.json', 'tsconfig.base.json', 'pnpm-workspace.yaml'];
  expect(allowed).toEqual(expect.arrayContaining(projects));
});
