import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NereidError } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type RunCommand, type RunHost, type Running, run } from './run.ts';
import type { StopSignal } from './stop-signals.ts';

type ServerOptions = Parameters<RunHost['start']['serve']>[0];

let root: string;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'nereid-serve-'));
  await mkdir(join(root, 'models', 'simple', '1'), { recursive: true });
  await mkdir(join(root, 'empty'));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const MODELS: ReturnType<Running['models']> = [];

function runningServer(stop: Running['stop'] = async () => {}): Running {
  return {
    urls: { http: 'http://0.0.0.0:8000', metrics: 'http://0.0.0.0:8002' },
    loadFailures: [],
    models: () => MODELS,
    counts: () => ({ batches: 0 }),
    stop,
  };
}

/** A process with everything of it recorded. */
function fakeHost(start: RunHost['start']['serve'], env: Record<string, string> = {}) {
  const listeners: ((signal: StopSignal) => void)[] = [];
  const seen = { out: '', err: '', file: '', started: [] as ServerOptions[], commands: [] as RunCommand[] };
  const clock = virtualClock();
  let heard = () => {};
  const listening = new Promise<void>((resolve) => {
    heard = resolve;
  });
  const starts = (command: RunCommand, options: ServerOptions) => {
    seen.commands.push(command);
    seen.started.push(options);
    return start(options);
  };
  const host: RunHost = {
    pid: 7,
    hostName: 'host-1',
    env,
    clock,
    stdout: (text) => {
      seen.out += text;
    },
    stderr: (text) => {
      seen.err += text;
    },
    keeper: undefined,
    residentBytes: () => 0,
    startWorker: () => {
      throw new Error('no worker is kept here');
    },
    listenForSignals: (listener) => {
      listeners.push(listener);
      heard();
    },
    readFile: () => 'http-port: 8100',
    openLogFile: (path) => {
      if (path === '/closed/log') throw new Error('EACCES: permission denied');
      return (text) => {
        seen.file += text;
      };
    },
    kill: () => {
      throw new Error('not to be killed');
    },
    start: {
      serve: (options) => starts('serve', options),
      gateway: (options) => starts('gateway', options),
      coordinator: (options) => starts('coordinator', options),
      worker: (options) => starts('worker', options),
    },
  };
  const kill = (signal: StopSignal) => {
    for (const listener of listeners) listener(signal);
  };
  return { host, seen, clock, kill, listening };
}

const repository = () => `--model-repository=${join(root, 'models')}`;

describe('serve', () => {
  it('starts, tells what it serves, and ends with 0 after a signal', async () => {
    let stops = 0;
    const deadlines: unknown[] = [];
    const { host, seen, kill, listening } = fakeHost(async () =>
      runningServer(async (stopOptions) => {
        stops++;
        deadlines.push(stopOptions?.deadlineMs);
      }),
    );
    const ended = run(
      'serve',
      [
        repository(),
        '--exit-timeout-secs=3',
        '--http-port=8100',
        '--backend-config=onnxruntime,a=b',
        '--reuse-grpc-port',
      ],
      host,
    );
    await listening;
    kill('SIGTERM');
    kill('SIGINT');
    expect(await ended).toBe(0);
    expect([stops, deadlines]).toEqual([1, [3000]]);
    expect(seen.started).toEqual([
      expect.objectContaining({
        modelRepositories: [join(root, 'models')],
        autoCompleteConfig: true,
        backendConfig: { onnxruntime: { a: 'b' } },
        http: expect.objectContaining({ address: '0.0.0.0', port: 8100, maxInputBytes: 67_108_864 }),
        metrics: { address: '0.0.0.0', port: 8002 },
      }),
    ]);
    expect(seen.err).toMatch(/^W.*"--reuse-grpc-port has no effect in this version: .*"\n$/);
    expect(seen.out).toMatch(/"SIGTERM received: stopping"\n$/);
  });

  it('shows the table and a line per service once started', async () => {
    const stopped = fakeHost(async () => runningServer());
    const ended = run('serve', [repository()], stopped.host);
    await expect.poll(() => stopped.seen.out).toContain('Started Metrics Service');
    stopped.kill('SIGINT');
    await ended;
    const [head, rule, columns] = stopped.seen.out.split('\n');
    expect(head).toMatch(/^I.* 7 nereid\] $/);
    expect(rule).toBe('+-------+---------+--------+');
    expect(columns).toBe('| Model | Version | Status |');
    expect(stopped.seen.out).toMatch(
      /"Started HTTPService at 0\.0\.0\.0:8000"\nI.*"Started Metrics Service at 0\.0\.0\.0:8002"\n/,
    );
  });

  it('tells a producer of jobs where the private Redis is', async () => {
    const urls = { redis: 'unix:///d/redis.sock' };
    const { host, seen, kill } = fakeHost(async () => ({ ...runningServer(), urls }));
    const ended = run('serve', [repository(), '--job-prefix=mine'], host);
    await expect.poll(() => seen.out).toContain('Started job queues');
    kill('SIGINT');
    await ended;
    expect(seen.out).toContain('"Started job queues on private Redis unix:///d/redis.sock, BullMQ prefix mine"\n');
  });

  it('a switched-off service is not asked for', async () => {
    const { host, seen, kill, listening } = fakeHost(async () => runningServer());
    const ended = run('serve', [repository(), '--allow-http=false', '--allow-metrics=false'], host);
    await listening;
    kill('SIGINT');
    await ended;
    expect(seen.started[0]).not.toHaveProperty('http');
    expect(seen.started[0]).not.toHaveProperty('metrics');
  });

  it('json output has the models as data and the node in each line', async () => {
    const { host, seen, kill } = fakeHost(async () => runningServer(), { NEREID_LOG_OUTPUT: 'json' });
    const ended = run('serve', [repository()], host);
    await expect.poll(() => seen.out).toContain('Started Metrics Service');
    kill('SIGINT');
    await ended;
    const lines = seen.out.trimEnd().split('\n');
    const first: unknown = JSON.parse(lines[0] ?? '');
    expect(first).toMatchObject({ node: 'host-1', models: [] });
    expect(lines).toHaveLength(4);
  });

  it('the log file takes all lines', async () => {
    const { host, seen, kill } = fakeHost(async () => runningServer());
    const ended = run('serve', [repository(), '--log-file=/x/log', '--grpc-infer-thread-count=4'], host);
    await expect.poll(() => seen.file).toContain('Started Metrics Service');
    kill('SIGINT');
    await ended;
    expect([seen.out, seen.err]).toEqual(['', '']);
    expect(seen.file).toContain('--grpc-infer-thread-count has no effect');
  });
});

describe('a role by itself', () => {
  const REDIS = '--redis-url=redis://user:secret@h:1';

  it.each<[RunCommand, () => readonly string[], boolean]>([
    ['gateway', () => [], false],
    ['coordinator', () => [repository()], true],
    ['worker', () => [repository(), '--worker-models=a*,b'], false],
  ])('%s starts its role and tells of what Redis; only a coordinator shows models', async (command, flags, table) => {
    const urls = { metrics: 'http://0.0.0.0:8012', redis: 'redis://h:1' };
    const { host, seen, kill } = fakeHost(async () => ({ ...runningServer(), urls }));
    const ended = run(command, [...flags(), REDIS, '--redis-prefix=other'], host);
    await expect.poll(() => seen.out).toContain(`"Started ${command} on Redis redis://h:1, prefix other"\n`);
    kill('SIGTERM');
    expect(await ended).toBe(0);
    expect(seen.commands).toEqual([command]);
    expect(seen.started[0]?.redis).toEqual({
      url: 'redis://user:secret@h:1',
      prefix: 'other',
      allowEvicting: false,
      blobDirectory: '/dev/shm',
    });
    expect(seen.started[0]?.workerModels).toEqual(command === 'worker' ? ['a*', 'b'] : undefined);
    expect(seen.out.includes('| Model |')).toBe(table);
    expect(seen.out + seen.err).not.toContain('secret');
  });

  it.each<[RunCommand, () => readonly string[], RegExp]>([
    ['gateway', () => [], /^nereid gateway: --redis-url is required, e\.g\. /],
    ['worker', () => [repository()], /^nereid worker: --redis-url is required/],
    ['coordinator', () => [REDIS], /^nereid coordinator: --model-repository is required/],
    [
      'gateway',
      () => [REDIS, repository()],
      /^nereid gateway: --model-repository belongs to the coordinator and the worker/,
    ],
  ])('%s without what it needs, or with what it does not read, ends with 2', async (command, flags, text) => {
    const { host, seen } = fakeHost(async () => runningServer());
    expect(await run(command, flags(), host)).toBe(2);
    expect(seen.err).toMatch(text);
    expect(seen.err.split('\n')).toHaveLength(2);
    expect(seen.started).toEqual([]);
  });
});

describe('failures are one line on standard error with their exit code', () => {
  it.each<[string, () => readonly string[], number, RegExp]>([
    [
      'a bad flag',
      () => [repository(), '--http-prot=1'],
      2,
      /^unknown option --http-prot: did you mean --http-port\?$/,
    ],
    ['no repository', () => [], 2, /^--model-repository is required/],
    ['a missing repository', () => [`--model-repository=${root}/none`], 4, /none does not exist: create it or correct/],
    [
      'a closed log file',
      () => [repository(), '--log-file=/closed/log'],
      1,
      /^cannot append to the log file: EACCES.*correct --log-file$/,
    ],
  ])('%s', async (_rule, argv, exitCode, text) => {
    const { host, seen } = fakeHost(async () => runningServer());
    expect(await run('serve', argv(), host)).toBe(exitCode);
    expect(seen.err.startsWith('nereid serve: ')).toBe(true);
    expect(seen.err.replace('nereid serve: ', '').trimEnd()).toMatch(text);
    expect(seen.err.split('\n')).toHaveLength(2);
    expect(seen.started).toEqual([]);
  });

  it.each([
    ['a model that fails', new NereidError('INTERNAL', 'failed to load all models'), 4, 'failed to load all models'],
    [
      'a Redis that cannot be used',
      new NereidError('UNAVAILABLE', 'Redis is old', { reason: 'redis_unusable' }),
      3,
      'Redis is old',
    ],
    ['anything else', new Error('no memory'), 1, 'no memory'],
  ])('%s at the start', async (_rule, failure, exitCode, text) => {
    const { host, seen } = fakeHost(() => Promise.reject(failure));
    expect(await run('serve', [repository()], host)).toBe(exitCode);
    expect(seen.err).toBe(`nereid serve: ${text}\n`);
  });

  const failed = (model: string, text: string) => ({ model, error: { code: 'INTERNAL' as const, message: text } });
  it.each([
    [[failed('a', 'no\n file;\n')], 'failed to load a (no file): mend or remove, or start with --exit-on-error=false'],
    [
      Array.from({ length: 10 }, (_, index) => failed(`m${index}`, 'no')),
      'failed to load m0 (no), m1 (no), m2 (no), m3 (no), m4 (no), m5 (no), m6 (no), m7 (no) and 2 more: mend or remove, or start with --exit-on-error=false',
    ],
  ])('models that did not load: the table, then one line, and 4 when all is stopped', async (loadFailures, text) => {
    let stops = 0;
    const server = { ...runningServer(async () => void stops++), loadFailures };
    const { host, seen } = fakeHost(async () => server);
    expect(await run('serve', [repository()], host)).toBe(4);
    expect(seen.err).toBe(`nereid serve: ${text}\n`);
    expect(seen.out).toContain('| Not loaded: no');
    expect(seen.out).not.toContain('Started');
    expect(stops).toBe(1);
  });

  it('with --exit-on-error=false they are only shown', async () => {
    const server = { ...runningServer(), loadFailures: [failed('a', 'no file')] };
    const { host, seen, kill } = fakeHost(async () => server);
    const ended = run('serve', [repository(), '--exit-on-error=false'], host);
    await expect.poll(() => seen.out).toContain('Started Metrics Service');
    kill('SIGINT');
    expect(await ended).toBe(0);
    expect(seen.out).toMatch(/\| a +\| - +\| Not loaded: no file \|/);
  });

  it('an empty repository is a warning', async () => {
    const { host, seen, kill, listening } = fakeHost(async () => runningServer());
    const ended = run('serve', [`--model-repository=${join(root, 'empty')}`], host);
    await listening;
    kill('SIGINT');
    expect(await ended).toBe(0);
    expect(seen.err).toMatch(/^W.*holds no models: each model is a folder/);
  });
});

describe('a signal', () => {
  it('whose stop fails ends with 1', async () => {
    const { host, seen, kill, listening, clock } = fakeHost(async () =>
      runningServer(() => Promise.reject(new Error('worker is stuck'))),
    );
    const ended = run('serve', [repository()], host);
    await listening;
    kill('SIGINT');
    expect(await ended).toBe(1);
    expect(seen.err).toContain('worker is stuck');
    expect(clock.liveTimers).toBe(0);
  });

  it('during the start waits for the server and stops it', async () => {
    let begin = (_server: Running) => {};
    const starting = new Promise<Running>((resolve) => {
      begin = resolve;
    });
    let stops = 0;
    const { host, seen, kill, listening, clock } = fakeHost(() => starting);
    const ended = run('serve', [repository()], host);
    await listening;
    kill('SIGINT');
    await new Promise((resolve) => setImmediate(resolve));
    begin(runningServer(async () => void stops++));
    expect(await ended).toBe(0);
    expect(stops).toBe(1);
    expect(seen.out).not.toContain('Started HTTPService');
    expect(clock.liveTimers).toBe(0);
  });

  it('during a start that then fails ends with 0', async () => {
    let fail = (_failure: Error) => {};
    const starting = new Promise<Running>((_resolve, reject) => {
      fail = reject;
    });
    const { host, kill, listening } = fakeHost(() => starting);
    const ended = run('serve', [repository()], host);
    await listening;
    kill('SIGTERM');
    await new Promise((resolve) => setImmediate(resolve));
    fail(new Error('interrupted'));
    expect(await ended).toBe(0);
  });
});
