import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { type Command, runCli } from '../command.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { infer, SIMPLE_SUM, simpleRequest } from './requests.ts';

const SAMPLES = `--model-repository=${join(ROOT, 'model_repository')}`;
const ANY_PORTS = {
  gateway: ['--http-port=0', '--grpc-port=0', '--metrics-port=0'],
  coordinator: ['--metrics-port=0'],
};
const READY_LIMIT_MS = 30_000;
/** Four processes start one after the other, on however busy a machine. */
const FOUR_PROCESSES_LIMIT_MS = 120_000;

let redis: PrivateRedis;
let commands: Command[] = [];

beforeAll(async () => {
  redis = await startPrivateRedis();
  await redis.ask('ACL', 'SETUSER', 'lent', 'on', '>secret-1', '~nereid:*', '~bull:*', '&*', '+@all');
  await redis.ask('ACL', 'SETUSER', 'no-jobs', 'on', '>secret-3', '~nereid:*', '&*', '+@all');
  await redis.ask('ACL', 'SETUSER', 'reader', 'on', '>secret-2', '~*', '&*', '+@read', '+@connection', '+info');
});
afterAll(async () => {
  await redis.stop();
});
afterEach(async () => {
  for (const { process } of commands) process.kill('SIGKILL');
  await Promise.all(commands.map(({ ended }) => ended));
  commands = [];
});

function run(args: readonly string[]): Command {
  const command = runCli(args);
  commands.push(command);
  return command;
}

/** The Redis' address for a user, with `:` and the password where there is one. */
const urlFor = (user: string) => `--redis-url=${redis.url.replace('unix://', `unix://${user}@`)}`;

describe('a role by itself', () => {
  test.each([
    ['gateway', 'SIGTERM', ANY_PORTS.gateway],
    ['coordinator', 'SIGTERM', [...ANY_PORTS.coordinator, SAMPLES, '--model-control-mode=explicit']],
    ['worker', 'SIGINT', [...ANY_PORTS.coordinator, SAMPLES]],
  ] as const)(
    '%s tells which Redis it is on, without the password, and %s ends it with 0',
    async (role, signal, flags) => {
      const command = run([role, urlFor('lent:secret-1'), ...flags]);
      const output = await command.waitFor(/Started \w+ on Redis .*\n/);
      expect(output).toContain(`Started ${role} on Redis ${redis.url}, prefix nereid`);
      const ending = await command.stop(signal);
      expect(ending).toMatchObject({ code: 0, signal: null });
      expect(ending.output).not.toContain('secret-1');
    },
  );

  test.each<[rule: string, args: () => readonly string[], code: number, text: RegExp]>([
    ['no Redis named', () => ['gateway'], 2, /--redis-url is required, e\.g\. --redis-url=redis:/],
    ['no repository named', () => ['worker', urlFor('default')], 2, /--model-repository is required/],
    [
      'a flag of another role',
      () => ['gateway', urlFor('default'), SAMPLES],
      2,
      /--model-repository belongs to the coordinator/,
    ],
    ['no URL', () => ['gateway', '--redis-url=localhost'], 2, /--redis-url: .* give redis:\/\//],
    ['nobody there', () => ['gateway', '--redis-url=redis://127.0.0.1:1'], 3, /cannot be reached.*correct --redis-url/],
    ['a wrong password', () => ['gateway', urlFor('lent:wrong')], 3, /refuses the login.*user and password/],
    [
      'no permission',
      () => ['worker', SAMPLES, urlFor('reader:secret-2')],
      3,
      /does not let this user run .*ACL SETUSER/,
    ],
    [
      'no permission for jobs',
      () => ['gateway', urlFor('no-jobs:secret-3'), ...ANY_PORTS.gateway],
      3,
      /does not let this user read bull:\*.*extend its rule by ~bull:\*/,
    ],
    [
      'a Redis that cannot keep a job through its own death',
      () => ['gateway', urlFor('default'), '--jobs-fsync=always', ...ANY_PORTS.gateway],
      3,
      /--jobs-fsync=always: Redis at \S+ keeps no append-only file: set appendonly yes/,
    ],
    [
      'a Cluster and a job prefix without a hash tag',
      () => ['coordinator', SAMPLES, '--redis-url=redis://127.0.0.1:1,127.0.0.1:2'],
      2,
      /--job-prefix=bull has no hash tag.*'\{bull-%m\}'/,
    ],
  ])('%s is told in one line', async (_rule, args, code, text) => {
    await expectOneLine(run(args()), code, text);
  });

  test.each([
    ['an old Redis', 'redis_version:6.2.14', /is Redis 6\.2\.14, which is too old: use Redis 7\.0 or Valkey 7\.2/],
    ['a replica', 'redis_version:7.0.15\r\nrole:slave', /is a replica: give the primary/],
    ['a node of a Cluster', 'redis_version:7.0.15\r\ncluster_enabled:1', /is a node of a Cluster: list its nodes/],
  ])('%s is told in one line', async (_rule, info, text) => {
    const pretended = await pretendRedis(info);
    try {
      await expectOneLine(run(['coordinator', SAMPLES, `--redis-url=${pretended.url}`]), 3, text);
    } finally {
      pretended.close();
    }
  });

  test('a Redis that may evict keys is refused unless that is allowed', async () => {
    const evicting = await startPrivateRedis(['--maxmemory-policy', 'allkeys-lru']);
    try {
      const args = ['gateway', `--redis-url=${evicting.url}`, ...ANY_PORTS.gateway];
      await expectOneLine(run(args), 3, /allkeys-lru.*maxmemory-policy noeviction.*--allow-evicting-redis/);
      const allowed = run([...args, '--allow-evicting-redis']);
      expect(await allowed.waitFor(/Started gateway on Redis/)).toMatch(/^W.*may evict keys/m);
      expect((await allowed.stop()).code).toBe(0);
    } finally {
      await evicting.stop();
    }
  });
});

test.each([['auto'], ['redis']])('serve on a Redis answers with --lane=%s', async (lane) => {
  const command = run(['serve', `--redis-url=${redis.url}`, `--lane=${lane}`, SAMPLES, ...ANY_PORTS.gateway]);
  const output = await command.waitFor(/Started serve on Redis .*\n/);
  const http = `http://127.0.0.1:${/Started HTTPService at \S+:(\d+)/.exec(output)?.[1]}`;
  expect(await becomesReady(http, () => command.process.exitCode !== null, READY_LIMIT_MS)).toBe(true);
  const answer = await infer(http, 'simple', simpleRequest());
  expect(answer.outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);
  expect((await command.stop()).code).toBe(0);
});

describe('the roles in the least convenient order', () => {
  const on = (prefix: string) => [`--redis-url=${redis.url}`, `--redis-prefix=${prefix}`];
  const httpOf = (output: string) => `http://127.0.0.1:${/Started HTTPService at \S+:(\d+)/.exec(output)?.[1]}`;
  const isReady = async (http: string) => (await fetch(`${http}/v2/health/ready`)).status;
  const never = () => false;

  test(
    'a gateway, then a coordinator, then a worker: each waits for the next',
    async () => {
      const place = on('order');
      const gateway = run(['gateway', ...place, ...ANY_PORTS.gateway]);
      const http = httpOf(await gateway.waitFor(/Started gateway on Redis .*\n/));
      expect(await isReady(http)).toBe(400);

      const coordinator = run(['coordinator', ...place, SAMPLES, ...ANY_PORTS.coordinator]);
      const announced = await coordinator.waitFor(/Started coordinator on Redis .*\n/);
      expect(announced).toMatch(/\| simple +\| 1 +\| UNAVAILABLE: Unavailable: no worker holds the model +\|/);
      const other = run(['worker', ...place, SAMPLES, '--worker-models=magika', ...ANY_PORTS.coordinator]);
      await other.waitFor(/Started worker on Redis/);
      expect(await isReady(http)).toBe(400);
      expect(await infer(http, 'simple', simpleRequest())).toMatchObject({
        status: 503,
        error: "Request for unknown model: 'simple' version 1 is not at ready state",
      });

      run(['worker', ...place, SAMPLES, ...ANY_PORTS.coordinator]);
      expect(await becomesReady(http, never, READY_LIMIT_MS)).toBe(true);
      expect((await infer(http, 'simple', simpleRequest())).outputs.get('OUTPUT0')?.data).toEqual(SIMPLE_SUM);

      expect((await coordinator.stop()).code).toBe(0);
      await vi.waitFor(async () => expect(await isReady(http)).toBe(400), READY_LIMIT_MS);
    },
    FOUR_PROCESSES_LIMIT_MS,
  );

  test('a coordinator that waits for a worker stops at once', async () => {
    const coordinator = run(['coordinator', ...on('alone'), SAMPLES, ...ANY_PORTS.coordinator]);
    await coordinator.waitFor(/Started coordinator on Redis/);
    const ending = await coordinator.stop();
    expect([ending.code, ending.output]).toEqual([0, expect.not.stringContaining('Exit timeout')]);
  });
});

/** Answers every command with this text of INFO. */
async function pretendRedis(info: string): Promise<{ readonly url: string; close(): void }> {
  const server = createServer((socket) => {
    const answer = `$${info.length}\r\n${info}\r\n`;
    socket.on('data', (commands) => socket.write(answer.repeat(commands.toString().split('*').length - 1)));
    socket.on('error', () => {});
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return { url: `redis://127.0.0.1:${port}`, close: () => server.close() };
}

async function expectOneLine(command: Command, code: number, text: RegExp): Promise<void> {
  const ending = await command.ended;
  expect(ending.code, ending.output).toBe(code);
  const lines = ending.output.split('\n').filter((line) => line.startsWith('nereid'));
  expect(lines, ending.output).toHaveLength(1);
  expect(lines[0]).toMatch(text);
  expect(ending.output, 'no stack trace').not.toMatch(/^\s+at .*:\d+:\d+\)?$/m);
  expect(ending.output, 'no password').not.toMatch(/secret|wrong/);
}
