// node fastify-jobs-server.mjs PORT SOCKET MODELS: Fastify, which adds jobs and answers for them, and in the same process a
// BullMQ Worker that runs them: with onnxruntime-node, or in JavaScript a model that does nothing.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Queue, Worker } from 'bullmq';
import Fastify from 'fastify';
import { loadModels } from './onnx-models.mjs';

/** So many jobs at once: while one computes the others are fetched and ended. */
const CONCURRENCY = 32;
const ARRAYS = { FP32: Float32Array, INT32: Int32Array };

const [port, path, folder] = process.argv.slice(2);
const connection = { path };
const isNothing = existsSync(join(folder, 'nothing'));
const models = isNothing ? new Map([['nothing', ({ INPUT }) => ({ OUTPUT: INPUT })]]) : await loadModels(folder);
const queues = new Map();

for (const [name, run] of models) {
  queues.set(name, new Queue(`infer.${name}`, { connection }));
  const work = async ({ data: { inputs } }) => {
    const tensors = inputs.map(({ name: input, datatype, shape, data }) => [
      input,
      { datatype, shape, values: ARRAYS[datatype].from(data) },
    ]);
    const outputs = await run(Object.fromEntries(tensors));
    return {
      model_name: name,
      outputs: Object.entries(outputs).map(([output, { datatype, shape, values }]) => {
        return { name: output, datatype, shape, data: Array.from(values) };
      }),
    };
  };
  await new Worker(`infer.${name}`, work, { connection, concurrency: CONCURRENCY }).waitUntilReady();
}

const app = Fastify();
app.get('/v2/health/ready', (_request, reply) => reply.code(200).send());
app.post('/v2/models/:model/jobs', async (request, reply) => {
  const queue = queues.get(request.params.model);
  if (queue === undefined) return reply.code(404).send({ error: 'no such model' });
  const { id } = await queue.add('job', request.body, { removeOnComplete: 1_000, removeOnFail: 1_000 });
  return reply.code(202).send({ id });
});
app.get('/v2/models/:model/jobs/:id', async (request, reply) => {
  const job = await queues.get(request.params.model)?.getJob(request.params.id);
  if (job === undefined) return reply.code(404).send({ error: 'no such job' });
  return { id: job.id, state: await job.getState(), result: job.returnvalue };
});
await app.listen({ port: Number(port), host: '127.0.0.1' });
