import { ChildProcess } from 'node:child_process';
import { LIMITS } from '@nereid/config';
import { createLog, virtualClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LINES_PER_SECOND_MAX } from './line-limit.ts';
import type { WorkerOptions } from './worker.ts';
import {
  createHarness,
  errorOf,
  executedOf,
  type Harness,
  int32,
  int32Values,
  PROCESS,
  request,
  responseOf,
} from './worker-harness.ts';

interface Line {
  readonly level: number;
  readonly msg: string;
  readonly model?: string;
  readonly instance?: string;
}

const INFO = 30;
const WARN = 40;
let harness: Harness;
let lines: Line[];
let hear: (line: Line) => void;

/** The next line that is logged with that text. */
const heard = (text: string) =>
  new Promise<Line>((resolve) => {
    hear = (line) => {
      if (line.msg.includes(text)) resolve(line);
    };
  });

const open = async (options: Partial<WorkerOptions> = {}) => {
  const write = (text: string) => {
    const line = JSON.parse(text) as Line;
    lines.push(line);
    hear(line);
  };
  harness = await createHarness({ log: createLog({ level: 'info', destination: { write } }), ...options });
};

beforeEach(async () => {
  lines = [];
  hear = () => {};
  await open();
});
afterEach(async () => {
  expect(await harness.close()).toEqual({ batches: 0, requests: 0, threads: 0, calls: 0, timers: 0 });
  for (const child of harness.processes) expect(child.exitCode ?? child.signalCode).not.toBeNull();
});

const x = (...values: number[]) => request([int32('X', [values.length], values)]);
const answerOf = (text: string) =>
  `({ outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(${text}) } } })`;
const echo =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { Y: inputs.get("X") } }));';
const reasonOf = async (config = PROCESS) => {
  await harness.javascript('m', echo, config);
  const { versions } = await harness.load('m');
  expect(versions[0]?.state).toBe('UNAVAILABLE');
  return versions[0]?.reason;
};

describe('an instance in a process', () => {
  it('runs there, with the main thread to itself', async () => {
    const source = `import { isMainThread } from 'node:worker_threads';
      export const execute = () => [${answerOf('isMainThread ? process.pid : -1')}];`;
    await harness.javascript('m', source, PROCESS);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [x(1)]);
    expect(int32Values(responseOf(outcomes[0]).outputs[0])).toEqual([harness.processes[0]?.pid]);
    expect(harness.threads).toEqual([]);
  });

  it('gets and gives tensors of any size, one after the other', async () => {
    await harness.javascript('m', echo, PROCESS);
    await harness.load('m');
    const tensors = [1, 1_500_000, 0, 16_384, 20_000, 1_500_000, 3].map((size, salt) => {
      const data = new Uint8Array(Int32Array.from({ length: size }, (_, i) => i + salt).buffer);
      return { name: 'X', datatype: 'INT32', shape: [size], data } as const;
    });
    const over = await Promise.all(tensors.map((tensor) => harness.execute('m', [request([tensor])])));
    for (const [i, { outcomes }] of over.entries()) {
      const [output] = responseOf(outcomes[0]).outputs;
      expect(output?.shape).toEqual(tensors[i]?.shape);
      expect(Buffer.compare(output?.data ?? Buffer.from('none'), tensors[i]?.data ?? Buffer.alloc(0))).toBe(0);
    }
  });

  it('that is an ONNX model is joined and split as in a thread', async () => {
    harness.fixture('simple');
    const control = await harness.control('simple');
    const config = JSON.parse(control.config);
    config.parameters = { 'nereid.carrier': { stringValue: 'process' } };
    await harness.load('simple', { config: JSON.stringify(config) });
    const ones = (value: number, rows: number) =>
      request(['INPUT0', 'INPUT1'].map((name) => int32(name, [rows, 16], new Array(rows * 16).fill(value))));
    const { outcomes } = await harness.execute('simple', [ones(1, 1), ones(2, 2)]);
    expect(outcomes.map((one) => int32Values(responseOf(one).outputs[0]))).toEqual([
      new Array(16).fill(2),
      new Array(32).fill(4),
    ]);
    expect(harness.processes).toHaveLength(1);
  });

  it('logs by its context, and what it writes line by line, with the names of model and instance', async () => {
    const source = `export function initialize({ context }) {
        context.log.warn('by its context');
        process.stdout.write('in two p'); process.stdout.write('ieces\\n\\nnext\\n');
        console.error('to standard error');
      } ${echo}`;
    await harness.javascript('m', source, PROCESS);
    const last = heard('to standard error');
    await harness.load('m');
    await last;
    await harness.worker.stop();
    const own = lines.filter(({ instance }) => instance === 'm_0').map(({ level, msg, model }) => [level, msg, model]);
    expect(own).toEqual(
      expect.arrayContaining([
        [WARN, 'by its context', 'm'],
        [INFO, 'in two pieces', 'm'],
        [INFO, 'next', 'm'],
        [WARN, 'to standard error', 'm'],
      ]),
    );
    expect(own).toHaveLength(4);
  });

  it('that writes without an end neither fills the log nor is held up', async () => {
    await harness.close();
    lines = [];
    await open({ clock: virtualClock() });
    const more = LINES_PER_SECOND_MAX * 3;
    await harness.javascript('m', `for (let i = 0; i < ${more}; i++) console.log('again'); ${echo}`, PROCESS);
    await harness.load('m');
    expect((await harness.execute('m', [x(1)])).outcomes[0]?.ok).toBe(true);
    await harness.worker.stop();
    const own = lines.filter(({ instance }) => instance === 'm_0').map(({ msg }) => msg);
    expect(own).toEqual([...new Array(LINES_PER_SECOND_MAX).fill('again'), '2000 more lines were left out']);
  });

  it('fails its load with what the model throws', async () => {
    await harness.javascript('m', 'throw new Error("no weights");', PROCESS);
    const { versions } = await harness.load('m');
    expect(versions[0]?.reason).toBe("Internal: model 'm': cannot import model.mjs: no weights");
  });

  it('hears of a cancel while it runs, and before it runs', async () => {
    const source = `export const execute = ([{ inputs, signal }]) => {
      console.log('got ' + inputs.get('X').data[0]);
      if (inputs.get('X').data[0] === 1) return new Promise((_, no) => signal.addEventListener('abort', () => no(signal.reason)));
      return [${answerOf('7')}];
    };`;
    await harness.javascript('m', source, PROCESS);
    await harness.load('m');
    const got = heard('got 1');
    const first = harness.start('m', [x(1)]);
    const second = harness.start('m', [x(2)]);
    const third = harness.start('m', [x(3)]);
    await got;
    await harness.cancel('m', [...second.ids, ...first.ids]);
    expect(executedOf((await first.over).done)).toEqual([true, 'cancelled']);
    expect(executedOf((await second.over).done)).toEqual([false, 'cancelled']);
    expect(executedOf((await third.over).done)).toEqual([true, 'ok']);
    await harness.worker.stop();
    expect(lines.map(({ msg }) => msg)).not.toContain('got 2');
  });

  it('streams beyond the window of chunks, in order', async () => {
    const source = `async function* count() { for (let i = 0; i < 200; i++) yield ${answerOf('i')}; }
      export const execute = (requests) => requests.map(count);`;
    await harness.javascript('m', source, `${PROCESS} model_transaction_policy { decoupled: true }`);
    await harness.load('m');
    const done = harness.next('done');
    harness.start('m', [x(1)]);
    await done;
    const chunks = harness.received.flatMap((message) =>
      message.kind === 'response' && message.outcome.ok ? int32Values(responseOf(message.outcome).outputs[0]) : [],
    );
    expect(chunks).toEqual(Array.from({ length: 200 }, (_, i) => i));
  });

  it('is not held by a request that cannot be sent', async () => {
    await harness.javascript('m', echo, PROCESS);
    await harness.load('m');
    const { outcomes, done } = await harness.execute('m', [{ ...x(1), parameters: { callback: (() => 1) as never } }]);
    expect(errorOf(outcomes[0]).message).toContain('could not be cloned');
    expect(executedOf(done)).toEqual([false, 'error']);
  });

  it('that writes to the line itself is ended with that reason', async () => {
    const source = `import { writeSync } from 'node:fs';
      export const execute = () => { writeSync(3, 'hello, hello, hello'); return [${answerOf('1')}]; };`;
    await harness.javascript('m', source, PROCESS);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [x(1)]);
    expect(errorOf(outcomes[0])).toMatchObject({
      code: 'POISONED',
      message: expect.stringContaining('what came through its pipe is no frame'),
    });
  });
});

describe('the start of a process', () => {
  it('is by the command before it, in the environment of the worker', async () => {
    await harness.close();
    process.env.NEREID_TEST_INHERITED = '2';
    await open({ launch: () => ({ prefix: ['env', 'NEREID_TEST_LAUNCHED=40'] }) });
    const sum = 'Number(process.env.NEREID_TEST_LAUNCHED) + Number(process.env.NEREID_TEST_INHERITED)';
    await harness.javascript('m', `export const execute = () => [${answerOf(sum)}];`);
    await harness.load('m');
    const { outcomes } = await harness.execute('m', [x(1)]);
    expect(int32Values(responseOf(outcomes[0]).outputs[0])).toEqual([42]);
    delete process.env.NEREID_TEST_INHERITED;
  });

  it('fails the load where that command is not there', async () => {
    await harness.close();
    await open({ launch: () => ({ prefix: ['no-such-command', '-c'] }) });
    expect(await reasonOf()).toBe(
      "Internal: instance 'm_0' of model 'm' ended: its process cannot be started: spawn no-such-command ENOENT (started by 'no-such-command -c')",
    );
  });

  it('fails the load with what that command says', async () => {
    await harness.close();
    await open({ launch: () => ({ prefix: ['sh', '-c', 'echo no such cores >&2; exit 3'] }) });
    expect(await reasonOf()).toBe(
      "Internal: instance 'm_0' of model 'm' ended: its process ended with exit code 3 (started by 'sh -c echo no such cores >&2; exit 3'): no such cores",
    );
  });

  it('fails the load where the system has no file descriptors left', async () => {
    await harness.close();
    await open({
      spawnProcess() {
        // What Node gives then: no pipes, and the reason by an event.
        const child = new ChildProcess();
        process.nextTick(() => child.emit('error', new Error('spawn EMFILE')));
        return child;
      },
    });
    expect(await reasonOf()).toBe(
      "Unavailable: instance 'm_0' of model 'm' is not available: its carrier cannot be started: the system has no file descriptors left for its pipes",
    );
  });

  it('is not that of a host policy where the model asks for threads', async () => {
    await harness.close();
    await open({ launch: () => ({ prefix: ['false'] }) });
    await harness.javascript('m', echo, 'parameters { key: "nereid.carrier" value { string_value: "thread" } }');
    const { versions } = await harness.load('m');
    expect(versions[0]?.state).toBe('READY');
  });

  it('ends a process that does not load in time', async () => {
    await harness.close();
    await open({ limits: { ...LIMITS, instance_start_timeout_ms: 1 } });
    await harness.javascript('m', 'for (;;);', PROCESS);
    const { versions } = await harness.load('m');
    expect(versions[0]?.reason).toContain('did not load within 1 ms');
    await harness.worker.stop();
    expect(harness.processes[0]?.signalCode).toBe('SIGTERM');
  });
});

describe('the end of a process', () => {
  it('is by itself, after what it holds and finalize', async () => {
    const source = `export const finalize = () => console.log('finalized'); setInterval(() => {}, 1000); ${echo}`;
    await harness.javascript('m', source, PROCESS);
    await harness.load('m');
    const running = harness.start('m', [x(1)]);
    await harness.cancel('m', []);
    await harness.worker.stop();
    expect((await running.over).outcomes[0]?.ok).toBe(true);
    expect(harness.processes[0]?.exitCode).toBe(0);
    expect(lines.map(({ msg }) => msg)).toContain('finalized');
  });

  it.each([
    ['that never comes back', '', 'SIGTERM'],
    ['that does not heed SIGTERM', `process.on('SIGTERM', () => {});`, 'SIGKILL'],
  ])('%s is by a signal once a stop is past its deadline', async (_, more, signal) => {
    await harness.javascript('m', `${more} export const execute = () => { console.log('in'); for (;;); };`, PROCESS);
    await harness.load('m');
    const inside = heard('in');
    const held = harness.start('m', [x(1)]);
    await inside;
    await harness.worker.stop(1);
    expect(errorOf((await held.over).outcomes[0])).toEqual({
      code: 'INTERNAL',
      message: `instance 'm_0' of model 'm' ended: its process was ended by signal ${signal}`,
    });
  });

  it('that is unloaded and never comes up is by a signal once its load takes too long', async () => {
    await harness.close();
    const clock = virtualClock();
    await open({ clock });
    await harness.javascript('m', `console.log('in'); for (;;);`, PROCESS);
    const inside = heard('in');
    harness.owner.send('wk-test', await harness.control('m'));
    await inside;
    const unloading = harness.described('m', ({ versions }) => versions[0]?.state === 'UNLOADING');
    const unloaded = harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    harness.owner.send('wk-test', await harness.control('m', { action: 'unload', config: '', versions: [] }));
    await unloading;
    clock.advanceUs(LIMITS.instance_start_timeout_ms * 1000);
    await unloaded;
    expect(harness.processes[0]?.signalCode).toBe('SIGTERM');
  });

  it('does not wait for what it leaves behind with its output', async () => {
    const source = `import { spawn } from 'node:child_process';
      const left = spawn('sleep', ['600'], { detached: true, stdio: 'inherit' });
      left.unref();
      console.log('left ' + left.pid);
      ${echo}`;
    await harness.javascript('m', source, PROCESS);
    const told = heard('left ');
    await harness.load('m');
    const pid = Number((await told).msg.slice('left '.length));
    try {
      await harness.worker.stop();
      expect(harness.worker.counters().threads).toBe(0);
    } finally {
      // Throws where it is gone: then its end may be what was waited for.
      process.kill(pid);
    }
  });
});
