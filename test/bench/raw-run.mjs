// A child process of raw-column.mjs: session.run in a loop, with nothing around it. { load }, { run } → a figure.
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { difference } from './models/inputs.mjs';
import { busySeconds } from './proc-cpu.mjs';

const TYPES = { FP32: 'float32', INT64: 'int64' };
const OPTIONS = { intraOpNumThreads: 1, interOpNumThreads: 1 };
/** One run in so many is checked. */
const CHECK_EVERY = 50;

let session;
let samples;

/** Feeds of each batch: different requests one after the other. Where the model has no batches they have no rows. */
function batches(size) {
  return samples.map((_, first) => {
    const chosen = Array.from({ length: size }, (__, index) => samples[(first + index) % samples.length]);
    const feeds = {};
    for (const [index, { name, datatype, shape, values }] of chosen[0].inputs.entries()) {
      const all = new values.constructor(values.length * size);
      for (const [row, { inputs }] of chosen.entries()) all.set(inputs[index].values, row * values.length);
      feeds[name] = new Tensor(TYPES[datatype], all, size === 1 ? shape : [shape[0] * size, ...shape.slice(1)]);
    }
    return { chosen, feeds };
  });
}

function check(chosen, outputs) {
  for (const [row, { outputs: expected }] of chosen.entries()) {
    const rows = Object.entries(outputs).map(([name, { data }]) => {
      const length = data.length / chosen.length;
      return [name, data.subarray(row * length, (row + 1) * length)];
    });
    const wrong = difference(expected, new Map(rows));
    if (wrong !== undefined) return wrong;
  }
  return undefined;
}

async function loop(inputs, seconds) {
  const times = [];
  const begin = performance.now();
  const before = process.cpuUsage();
  const busyBefore = busySeconds();
  let checked = 0;
  let wrong;
  for (let count = 0; performance.now() - begin < seconds * 1000 || count === 0; count += 1) {
    const { chosen, feeds } = inputs[count % inputs.length];
    const start = performance.now();
    const outputs = await session.run(feeds);
    times.push(performance.now() - start);
    if (count % CHECK_EVERY !== 0) continue;
    wrong ??= check(chosen, outputs);
    checked += chosen.length;
  }
  const cpu = process.cpuUsage(before);
  const own = (cpu.user + cpu.system) / 1e6;
  const others = Math.max(0, busySeconds() - busyBefore - own) / ((performance.now() - begin) / 1000);
  return { times, checked, wrong, cpu_s: own, other_cpu: others };
}

async function run({ batch, seconds, warmUp }) {
  const inputs = batches(batch);
  await loop(inputs, warmUp);
  const { times, ...rest } = await loop(inputs, seconds);
  // Of the runs alone: what is checked in between does not count.
  const busyMs = times.reduce((sum, ms) => sum + ms, 0);
  const sorted = times.toSorted((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  const n = times.length * batch;
  return { rps: (n * 1000) / busyMs, p50_ms: at(0.5), p99_ms: at(0.99), n, ...rest };
}

process.on('message', async ({ path, samples: sent, ...asked }) => {
  try {
    if (path === undefined) process.send(await run(asked));
    else {
      await session?.release();
      session = await InferenceSession.create(path, OPTIONS);
      samples = sent;
      process.send({});
    }
  } catch (error) {
    process.send({ failed: String(error) });
  }
});
process.on('disconnect', () => process.exit());
