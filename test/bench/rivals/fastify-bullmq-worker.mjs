// node fastify-bullmq-worker.mjs SOCKET MODELS: a BullMQ Worker that runs the models with onnxruntime-node.
import { Worker } from 'bullmq';
import { packTensors, unpackTensors } from './bullmq-tensors.mjs';
import { loadModels } from './onnx-models.mjs';

/** So many jobs at once: while one computes the others are fetched and answered. */
const CONCURRENCY = 32;

const [path, folder] = process.argv.slice(2);
const models = await loadModels(folder);
const worker = new Worker('infer', async ({ name, data }) => packTensors(await models.get(name)(unpackTensors(data))), {
  connection: { path },
  concurrency: CONCURRENCY,
});
await worker.waitUntilReady();
