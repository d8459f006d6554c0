/**
 * What it takes to hand a tensor of 4 MB to the next step: kept on the same worker, put down for another worker of the
 * host, and as a plain file (docs/decisions/0030-kept-tensors.md).
 *
 *   node test/bench/kept.mjs [--count=100]
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openCaller } from '../../packages/caller/dist/index.js';
import { decodeModelConfig, encodeModelConfig, LIMITS } from '../../packages/config/dist/index.js';
import { REQUEST_DEFAULTS } from '../../packages/protocol/dist/index.js';
import { createLog, systemClock } from '../../packages/runtime/dist/index.js';
import {
  connectRedis,
  createRedisDirectory,
  createRedisTransport,
  openBlobFiles,
  timing,
} from '../../packages/transport/dist/index.js';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';

const { values } = parseArgs({ options: { count: { type: 'string', default: '100' } } });
const COUNT = Number(values.count);
const WARM_UP = 10;
const ELEMENTS = 1_000_000;
const PREFIX = 'nereid';
const BLOBS = '/dev/shm';

/** Gives as many elements as it is asked for: the same ones each time. */
const WIDE = `
  const made = new Map();
  const zeros = (count) => made.get(count) ?? (made.set(count, new Int32Array(count)), made.get(count));
  export const execute = (requests) => requests.map(({ inputs }) => {
    const [count] = inputs.get('X').data;
    return { outputs: { Y: { datatype: 'INT32', shape: [count], data: zeros(count) } } };
  });`;
const LENGTH = `
  export const execute = (requests) => requests.map(({ inputs }) => (
    { outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(inputs.get('X').data.length) } } }));`;

const folder = mkdtempSync(join(tmpdir(), 'nereid-kept-'));
for (const [name, source] of [
  ['wide', WIDE],
  ['near', LENGTH],
  ['far', LENGTH],
]) {
  mkdirSync(join(folder, name, '1'), { recursive: true });
  writeFileSync(join(folder, name, '1', 'model.mjs'), source);
  writeFileSync(
    join(folder, name, 'config.pbtxt'),
    `name: "${name}" backend: "javascript" max_batch_size: 0
     input { name: "X" data_type: TYPE_INT32 dims: -1 } output { name: "Y" data_type: TYPE_INT32 dims: -1 }`,
  );
}

const redis = await startPrivateRedis();
const cluster = clusterOn(redis, flagEnvironment([`--model-repository=${folder}`]));
const processes = [
  cluster.start('coordinator'),
  cluster.start('worker', ['--worker-models=wide,near']),
  cluster.start('worker', ['--worker-models=far']),
];
const clock = systemClock();
const log = createLog({ level: 'warn' });
const times = timing();
const connector = connectRedis(redis.url, { name: 'bench' });
const files = openBlobFiles(BLOBS, PREFIX, () => Date.now());
if (!files.ok) throw new Error(files.reason);
const shared = { connector, prefix: PREFIX, log, clock, timing: times };
const directory = createRedisDirectory({
  ...shared,
  encode: (record) => JSON.stringify({ ...record, config: encodeModelConfig(record.config) }),
  decode: (text) => {
    const record = JSON.parse(text);
    return { ...record, config: decodeModelConfig(record.config) };
  },
});
const limits = { messages_max: LIMITS.mailbox_messages_max, bytes_max: LIMITS.mailbox_bytes_max };
const blobs = { name: 'bl-bench', bytes_max: LIMITS.blob_bytes_max, files: files.files, filesReach: () => true };
const transport = createRedisTransport({ ...shared, limits, blobs });
await directory.start();
const withHost = (process) => directory.register({ ...process, blobHost: files.files.host });
const caller = openCaller({
  ...{ clock, log, transport, limits: LIMITS, timing: times, carries: true },
  directory: { ...directory, register: withHost },
});

const call = async (modelName, input, keep) => {
  const asked = { ...REQUEST_DEFAULTS, modelName, inputs: [{ ...input, name: 'X' }], inner: { keep } };
  const outcome = await caller.infer(asked);
  if (!outcome.ok) throw new Error(outcome.error.message);
  return outcome.response.outputs[0];
};

/** Milliseconds of both steps. */
const twoSteps = async (model, elements, keep) => {
  const input = { datatype: 'INT32', shape: [1], data: new Uint8Array(Int32Array.of(elements).buffer) };
  const startMs = performance.now();
  const between = await call('wide', input, keep);
  const place = between.blob?.place ?? 'frame';
  const { data } = await call(model, between, []);
  const tookMs = performance.now() - startMs;
  if (new Int32Array(data.slice().buffer)[0] !== elements) throw new Error('a wrong answer');
  caller.tensors.release([between]);
  return { tookMs, place };
};

/** The value that this share of them is below. */
const quantile = (list, share) => list.toSorted((a, b) => a - b)[Math.floor(list.length * share)];
/** The median, and the fastest tenth, which other programs disturb least. */
const SHARES = [0.5, 0.1];

try {
  await Promise.all(processes.map(({ started }) => started));
  await caller.registered;
  const cases = [
    ['kept, on one worker', 'near', ['Y']],
    ['kept, put down for another worker', 'far', ['Y']],
    ['a plain file', 'near', []],
  ];
  const taken = cases.map(() => ({ large: [], small: [] }));
  for (let turn = 0; turn < WARM_UP + COUNT; turn++) {
    for (const [at, [, model, keep]] of cases.entries()) {
      const large = await twoSteps(model, ELEMENTS, keep);
      const small = await twoSteps(model, 1, keep);
      if (turn < WARM_UP) continue;
      taken[at].large.push(large.tookMs);
      taken[at].small.push(small.tookMs);
      taken[at].place = large.place;
    }
  }
  for (const [at, [name]] of cases.entries()) {
    const { large, small, place } = taken[at];
    const told = SHARES.map((share) => {
      const [of4MB, of4B] = [quantile(large, share), quantile(small, share)];
      return `p${100 * share}: 4 MB ${of4MB.toFixed(2)} ms, 4 bytes ${of4B.toFixed(2)} ms, so ${(of4MB - of4B).toFixed(2)} ms`;
    });
    console.log(`${name} (${place}): ${told.join('; ')}`);
  }
} finally {
  await caller.close();
  await transport.close();
  await directory.close();
  connector.close();
  for (const { process } of processes) process.kill('SIGTERM');
  await Promise.all(processes.map(({ ended }) => ended));
  await redis.stop();
  rmSync(folder, { recursive: true, force: true });
}
