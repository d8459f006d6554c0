/** Jobs of a BullMQ producer end to end, beside Fastify with BullMQ's Worker; each in one process. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePorts } from '../free-ports.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { bar, mostBar, quietTurns } from './bars-turns.mjs';
import { withRedis, writeModels } from './engine.mjs';
import { nereidColumns } from './nereid-columns.mjs';
import { samplesOf } from './requests.mjs';
import { startRival, whenReady } from './rivals/rival-process.mjs';
import { median } from './statistics.mjs';

const script = (name) => fileURLToPath(new URL(name, import.meta.url));
const PRODUCER = script('./job-producer.mjs');
const RIVAL = script('./rivals/fastify-jobs-server.mjs');

/** A JavaScript model that does nothing, eight rows at most an execution; and `add_sub` in ONNX, which takes no batches. */
const NOTHING = {
  name: 'nothing',
  config: `name: "nothing" backend: "javascript" max_batch_size: 8 dynamic_batching {}
input [ { name: "INPUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "OUTPUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
`,
  source:
    'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { OUTPUT: inputs.get("INPUT") } }));\n',
};
const SEEDS = 16;
/** Outstanding. */
const MANY = 64;
const KEPT = 1_000;
const THROUGHPUT_MIN = 1.5;
const P50_MAX = 0.75;
const SCRIPT_CALLS_MAX = 0.4;
/** As `nereid serve` starts its own. */
const REDIS_FLAGS = ['--appendonly', 'yes', '--appendfsync', 'everysec'];

/** Throughput with 64 jobs outstanding and p50 with one, over the rival's; script calls per job of ours. */
export async function jobsBar(model, { folder, times, say }) {
  const models = join(folder, 'models');
  const samples = await modelIn(models, model);
  const sides = [];
  try {
    for (const [name, start] of [
      ['nereid', startNereid],
      ['fastify', startFastify],
    ]) {
      const place = join(folder, name);
      mkdirSync(place);
      sides.push(await withProducer(name, await start({ models, place }), { model, samples }));
    }
    const bars = [];
    for (const side of sides) await side.turn({ concurrency: MANY, seconds: times.firstWarmUp, warmUp: 0 });
    for (const concurrency of [MANY, 1]) {
      const runs = sides.map(({ name, turn }) => ({
        name: `${name}, ${concurrency}`,
        take: () => turn({ concurrency, seconds: times.seconds, warmUp: times.warmUp }),
      }));
      const turns = await quietTurns(runs, { times, say });
      const [ours, theirs] = runs.map(({ name }) => turns[name]);
      for (const [side, { name }] of runs.entries()) sayCosts(name, [ours, theirs][side], say);
      if (concurrency === MANY) {
        bars.push(
          bar(`jobs/s with ${MANY} outstanding, over Fastify's`, ours.rps.median / theirs.rps.median, THROUGHPUT_MIN),
        );
        bars.push(mostBar('script calls per job', scriptCalls(ours), SCRIPT_CALLS_MAX));
      } else
        bars.push(
          mostBar('p50 of one job after the other, over Fastify’s', ours.p50_ms.median / theirs.p50_ms.median, P50_MAX),
        );
    }
    return bars;
  } finally {
    for (const side of sides) await side.stop();
  }
}

/** The repository with that model alone, and what its jobs have and give. */
export async function modelIn(models, model) {
  if (model === NOTHING.name) {
    mkdirSync(join(models, model, '1'), { recursive: true });
    writeFileSync(join(models, model, 'config.pbtxt'), NOTHING.config);
    writeFileSync(join(models, model, '1', 'model.mjs'), NOTHING.source);
    return Array.from({ length: SEEDS }, (_, seed) => {
      const tensor = (name) => ({ name, datatype: 'FP32', shape: [1, 4], values: [seed, seed + 0.5, -seed, 0.25] });
      return { inputs: [tensor('INPUT')], outputs: [tensor('OUTPUT')] };
    });
  }
  writeModels(models);
  for (const other of readdirSync(models)) if (other !== model) rmSync(join(models, other), { recursive: true });
  return samplesOf(models, model);
}

const scriptCalls = ({ turns }) => median(turns.map((turn) => turn.script_calls));

function sayCosts(name, summary, say) {
  const cpu = Object.entries(summary.cpu_us).map(([role, us]) => `${role} ${us.toFixed(0)}`);
  say(`    ${name}: CPU us per job ${cpu.join(', ')}; ${scriptCalls(summary).toFixed(2)} script calls per job`);
}

/** A private Redis as its own would be, so that a producer can reach it and its commands are counted. */
export async function startNereid({ models, place, profiles }) {
  const [one] = nereidColumns();
  const [port] = await freePorts(1);
  const redis = await startPrivateRedis(REDIS_FLAGS);
  return {
    ...(await one.start({
      port,
      models,
      place,
      flags: [`--redis-url=${redis.url}`],
      profiles,
    })),
    redis,
  };
}

export async function startFastify({ models }) {
  const [port] = await freePorts(1);
  const redis = await startPrivateRedis(REDIS_FLAGS);
  const processes = { fastify: startRival(process.execPath, [RIVAL, `${port}`, redis.connection.path, models]) };
  return whenReady({ port, path: '/v2/health/ready', processes, redis });
}

export async function withProducer(name, starting, { model, samples }) {
  const server = await withRedis(starting);
  const { redis } = server;
  const data = samples.map(({ inputs, outputs }) => ({
    data: { inputs: inputs.map(({ values, ...tensor }) => ({ ...tensor, data: [...values] })) },
    outputs: outputs.map(({ name: output, values }) => ({ name: output, values: [...values] })),
  }));
  const at = { connection: redis.connection, name: `infer.${model}`, prefix: redis.jobPrefix, data, kept: KEPT };
  const producer = fork(PRODUCER, [JSON.stringify(at)]);
  await once(producer, 'message');
  return {
    name,
    server,
    async turn(asked) {
      const before = await calls(redis);
      producer.send({ ...asked, pids: server.pids });
      const [figures] = await once(producer, 'message');
      // The producer calls one a job, which adds it.
      return { ...figures, script_calls: ((await calls(redis)) - before) / figures.all - 1 };
    },
    async stop() {
      producer.kill();
      await server.stop();
      await redis.stop();
    },
  };
}

async function calls(redis) {
  const found = (await redis.ask('INFO', 'commandstats')).matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g);
  return [...found].reduce((sum, [, count]) => sum + Number(count), 0);
}
