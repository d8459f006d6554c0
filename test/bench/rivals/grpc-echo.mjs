import { fileURLToPath } from 'node:url';
import { freePorts } from '../../free-ports.mjs';
import { inputsOf } from '../models/inputs.mjs';
import { startRival, whenReady } from './rival-process.mjs';
import { inferRequestBytes, MODEL_INFER } from './v2-grpc.mjs';

const SERVER = fileURLToPath(new URL('./grpc-echo-server.mjs', import.meta.url));

/** What the gRPC library itself takes: a server that gives the bytes of each request back. It serves no model. */
export const GRPC_ECHO = {
  name: 'grpc-echo',
  title: 'bare gRPC echo (node:http2)',
  serves: ({ encoding, jobs }) => encoding === 'grpc' && jobs !== true,
  missing: async () => undefined,
  async start({ port }) {
    const [grpcPort] = await freePorts(1);
    const echo = startRival(process.execPath, [SERVER, `${port}`, `${grpcPort}`]);
    return whenReady({ port, grpcPort, path: '/', processes: { echo } });
  },
  request({ model, seed }) {
    const body = inferRequestBytes({ model, inputs: inputsOf(model, seed) });
    const check = (answer) => (body.equals(answer) ? undefined : 'other bytes than those of the request');
    return { mode: 'grpc', path: MODEL_INFER, headers: {}, body, check };
  },
};
