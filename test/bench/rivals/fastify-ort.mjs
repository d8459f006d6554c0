import { fileURLToPath } from 'node:url';
import { startRival, whenReady } from './rival-process.mjs';
import { v2Request } from './v2-wire.mjs';

const SERVER = fileURLToPath(new URL('./fastify-ort-server.mjs', import.meta.url));

/** Fastify with onnxruntime-node in one process. */
export const FASTIFY_ORT = {
  name: 'fastify-ort',
  title: 'Fastify with onnxruntime-node',
  serves: () => true,
  missing: async () => undefined,
  start: ({ port, models }) =>
    whenReady({
      port,
      path: '/v2/health/ready',
      processes: { server: startRival(process.execPath, [SERVER, `${port}`, models]) },
    }),
  request: v2Request,
};
