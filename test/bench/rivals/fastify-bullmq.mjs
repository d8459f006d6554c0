import { fileURLToPath } from 'node:url';
import { hasRedis, startPrivateRedis } from '../../private-redis.mjs';
import { startRival, whenReady } from './rival-process.mjs';
import { v2Request } from './v2-wire.mjs';

const script = (name) => fileURLToPath(new URL(name, import.meta.url));

/** Fastify, a BullMQ queue, and a Worker process with onnxruntime-node. */
export const FASTIFY_BULLMQ = {
  name: 'fastify-bullmq',
  title: 'Fastify with BullMQ and a Worker',
  serves: () => true,
  missing: async () => (hasRedis() ? undefined : 'no Redis server is on PATH'),
  async start({ port, models }) {
    const redis = await startPrivateRedis();
    const socket = redis.url.slice('unix://'.length);
    const processes = {
      server: startRival(process.execPath, [script('./fastify-bullmq-server.mjs'), `${port}`, socket]),
      worker: startRival(process.execPath, [script('./fastify-bullmq-worker.mjs'), socket, models]),
    };
    return whenReady({ port, path: '/v2/health/ready', processes, redis });
  },
  request: v2Request,
};
