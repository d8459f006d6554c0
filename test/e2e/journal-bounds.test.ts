import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { listRecordings, overRecording, replayCommand, showRecording } from './recordings.ts';
import { infer } from './requests.ts';

/** Steps of a recording at most, by `--journal-config`. */
const STEPS_MAX = 20;
/** Elements of a tensor that is kept apart: 64 KiB, and 16 KiB are enough. */
const LARGE = 16_384;
/** In the data of what is redacted, and nowhere else. */
const MARKER = 'tell-nobody-7f3a';

const SEQUENCE = `
  sequence_batching { max_sequence_idle_microseconds: 600000000 oldest { max_candidate_sequences: 8 } }`;
const ECHO =
  'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUT: inputs.get("IN") } }));';

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let redis: Redis;

  beforeAll(async () => {
    folder = createModelFolder();
    const dims = (name: string) => `input [ { name: "IN", ${name} } ] output [ { name: "OUT", ${name} } ]`;
    const redact = 'parameters { key: "nereid.journal_redact" value { string_value: "IN, OUT" } }';
    addModel('secret', dims('data_type: TYPE_STRING, dims: [ 1 ]'), redact);
    addModel('large', dims(`data_type: TYPE_INT32, dims: [ ${LARGE} ]`));
    addModel('small', dims('data_type: TYPE_INT32, dims: [ 1 ]'));
    served = await deploy(mode, [folder.path], ['--journal=on', `--journal-config=steps=${STEPS_MAX}`]);
    redis = new Redis({ path: await socketOf(served) });
    // A test ends it.
    redis.on('error', () => {});
  });
  afterAll(async () => {
    redis.disconnect();
    await served.stop();
    folder.remove();
  });

  function addModel(name: string, tensors: string, more = '') {
    mkdirSync(join(folder.path, name, '1'), { recursive: true });
    writeFileSync(join(folder.path, name, '1', 'model.mjs'), ECHO);
    const config = `name: "${name}" backend: "javascript" max_batch_size: 4 ${tensors} ${SEQUENCE} ${more}
      instance_group [ { count: 1, kind: KIND_CPU } ]`;
    writeFileSync(join(folder.path, name, 'config.pbtxt'), config);
  }

  async function step(model: string, id: string, datatype: string, data: readonly unknown[], flag: object = {}) {
    const inputs = [{ name: 'IN', datatype, shape: [1, data.length], data }];
    const answer = await infer(
      served.http,
      model,
      JSON.stringify({ parameters: { sequence_id: id, ...flag }, inputs }),
    );
    expect(answer.error).toBeUndefined();
    expect(answer.outputs.get('OUT')?.data).toEqual(data);
  }
  const start = { sequence_start: true };
  const end = { sequence_end: true };

  test('of a redacted tensor no byte is in Redis; its recording says why it cannot run again', async () => {
    await step('secret', 'redacted', 'BYTES', [`${MARKER}-0`], start);
    await step('secret', 'redacted', 'BYTES', [`${MARKER}-1`], end);
    const { id, steps } = await overRecording(served.http, 'secret', 'redacted');
    expect(steps).toBe(2);
    // Between processes the request itself went through Redis.
    await eventually('nothing of it is left', async () => (await keysWith(redis, MARKER)).length === 0);
    // What is not redacted is found by the same search.
    expect(await keysWith(redis, 'redacted')).not.toEqual([]);
    const { steps: shown } = await showRecording(served.http, id);
    for (const { inputs, answers } of shown) {
      for (const tensor of [...inputs, ...(answers[0]?.outputs ?? [])]) {
        expect(tensor).toMatchObject({ datatype: 'BYTES', shape: [1, 1], redacted: true });
        for (const member of ['data', 'b64', 'digest', 'byte_size']) expect(tensor).not.toHaveProperty(member);
      }
    }
    const { code, output } = await replayCommand(served.http, ['run', id]);
    expect(code, output).toBe(2);
    expect(output).toContain("input 'IN' of step 0 is redacted");
  });

  test('a large tensor is in Redis once for a recording, and comes back', async () => {
    const data = Array.from({ length: LARGE }, (_, index) => index * 3);
    const other = data.map((value) => value + 1);
    for (let at = 0; at < 6; at += 1) {
      await step('large', 'kept apart', 'INT32', at % 2 === 0 ? data : other, at === 0 ? start : at === 5 ? end : {});
    }
    const { id, bytes } = await overRecording(served.http, 'large', 'kept apart');
    // Six inputs and six outputs of two values.
    expect(bytes).toBeGreaterThan(2 * 4 * LARGE);
    expect(bytes).toBeLessThan(3 * 4 * LARGE);
    const { steps } = await showRecording(served.http, id);
    expect(steps.map(({ inputs }) => inputs[0]?.data)).toEqual([data, other, data, other, data, other]);
    expect(steps.map(({ answers }) => answers[0]?.outputs?.[0]?.data)).toEqual([data, other, data, other, data, other]);
    expect(await replayCommand(served.http, ['run', id])).toEqual({ code: 0, output: 'equal: 6 steps compared\n' });
  });

  test('what comes beyond the steps that are kept runs, and is told to be missing', async () => {
    for (let at = 0; at < STEPS_MAX + 5; at += 1) await step('small', 'long', 'INT32', [at], at === 0 ? start : {});
    const { id, state, steps } = await overRecording(served.http, 'small', 'long');
    expect([state, steps]).toEqual(['capped', STEPS_MAX]);
    await step('small', 'long', 'INT32', [0], end);
    const ran = await replayCommand(served.http, ['run', id]);
    expect(ran).toEqual({ code: 0, output: `equal: ${STEPS_MAX} steps compared\n` });
  });

  // Between processes requests go through Redis themselves.
  describe.skipIf(mode === 'apart')('Redis is away', () => {
    const recordingOf = async (sequence: string) =>
      (await listRecordings(served.http, 'small')).find(({ sequence_id: id }) => id === sequence);
    const known = (sequence: string) => recordingOf(sequence).catch(() => undefined);

    test('it stands still: steps are answered, and recorded once it goes on', async () => {
      await step('small', 'stall', 'INT32', [0], start);
      const pid = await redisPid(redis);
      process.kill(pid, 'SIGSTOP');
      try {
        for (let at = 1; at < 6; at += 1) await step('small', 'stall', 'INT32', [at], at === 5 ? end : {});
      } finally {
        process.kill(pid, 'SIGCONT');
      }
      await eventually('it is recorded', async () => (await known('stall'))?.state === 'ended');
      const { id = '' } = (await known('stall')) ?? {};
      expect(await replayCommand(served.http, ['run', id])).toEqual({ code: 0, output: 'equal: 6 steps compared\n' });
    });

    test('it ends: steps are answered, and what is missing is told as a gap', async () => {
      // Else the kill may take what Redis has not written yet.
      await redis.config('SET', 'appendfsync', 'always');
      await step('small', 'gap', 'INT32', [0], start);
      await step('small', 'gap', 'INT32', [1]);
      await eventually('both are recorded', async () => (await known('gap'))?.steps === 2);
      process.kill(await redisPid(redis), 'SIGKILL');
      let at = 2;
      for (; at < 6; at += 1) await step('small', 'gap', 'INT32', [at]);
      await eventually('Redis is back', async () => (await known('gap')) !== undefined);
      await eventually('it is told as a gap', async () => {
        await step('small', 'gap', 'INT32', [at]);
        at += 1;
        return (await known('gap'))?.state === 'gap';
      });
      await step('small', 'gap', 'INT32', [at], end);
      const { id = '', state, steps } = (await known('gap')) ?? {};
      expect([state, steps]).toEqual(['gap', 2]);
      expect(await replayCommand(served.http, ['run', id])).toEqual({ code: 0, output: 'equal: 2 steps compared\n' });
      expect(await metric(served.metrics, 'nereid_journal_dropped_steps_total')).toBeGreaterThan(0);
      // Those that come now are recorded again.
      await step('small', 'after', 'INT32', [1], { ...start, ...end });
      expect(await overRecording(served.http, 'small', 'after')).toMatchObject({ state: 'ended', steps: 1 });
    });
  });
});

async function socketOf({ http }: Deployment): Promise<string> {
  const answer = await fetch(`${http}/v2/models/small/jobs/queue`);
  const { redis_url: url } = (await answer.json()) as { redis_url: string };
  return decodeURIComponent(url.slice('unix://'.length));
}

async function redisPid(redis: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
}

/** Keys that have the text in their name or their value. */
async function keysWith(redis: Redis, text: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const keys of redis.scanStream()) {
    for (const key of keys as string[]) {
      const values = await rawValues(redis, key);
      if (key.includes(text) || values.some((value) => value.includes(text))) found.push(key);
    }
  }
  return found;
}

/** As they were written; a dump may be compressed. */
async function rawValues(redis: Redis, key: string): Promise<readonly Buffer[]> {
  switch (await redis.type(key)) {
    case 'string':
      return [(await redis.getBuffer(key)) ?? Buffer.alloc(0)];
    case 'hash':
      return Object.entries(await redis.hgetallBuffer(key)).flatMap(([field, value]) => [Buffer.from(field), value]);
    case 'stream':
      return (await redis.xrangeBuffer(key, '-', '+')).flatMap(([, fields]) => fields);
    case 'zset':
      return (await redis.zrange(key, 0, '-1')).map((member) => Buffer.from(member));
    case 'set':
      return redis.smembersBuffer(key);
    case 'list':
      return (await redis.lrange(key, 0, -1)).map((one) => Buffer.from(one));
    default:
      return [];
  }
}
