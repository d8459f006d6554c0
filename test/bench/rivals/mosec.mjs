import { fileURLToPath } from 'node:url';
import { difference, inputsOf, outputsOf } from '../models/inputs.mjs';
import { packBytes, unpackBytes } from './msgpack-bytes.mjs';
import { missingPythonRivals, RIVAL_PYTHON } from './python-rivals.mjs';
import { startRival, whenReady } from './rival-process.mjs';

const SERVER = fileURLToPath(new URL('./mosec_server.py', import.meta.url));
const MODELS = ['add_sub', 'mlp'];

/** mosec, in JSON and in MessagePack, the two forms that it brings. */
export const MOSEC = {
  name: 'mosec',
  title: 'mosec',
  serves: ({ model }) => MODELS.includes(model),
  missing: missingPythonRivals,
  start: ({ port, models }) =>
    whenReady({
      port,
      path: '/',
      processes: {
        server: startRival(RIVAL_PYTHON, [SERVER, '--address', '127.0.0.1', '--port', `${port}`], {
          BENCH_MODELS: models,
        }),
      },
    }),
  request({ model, encoding, seed, outputs }) {
    const inputs = inputsOf(model, seed);
    const check = (found) => difference(outputs ?? outputsOf(model, inputs), found);
    if (encoding === 'json') {
      const values = Object.fromEntries(inputs.map((tensor) => [tensor.name, Array.from(tensor.values)]));
      return {
        path: `/${model}/json`,
        headers: { 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify(values)),
        check: (body) => check(new Map(Object.entries(JSON.parse(body)))),
      };
    }
    return {
      path: `/${model}/msgpack`,
      headers: { 'content-type': 'application/msgpack' },
      body: packBytes(inputs.map((tensor) => [tensor.name, bytesOf(tensor.values)])),
      check: (body) => check(new Map([...unpackBytes(body)].map(([name, bytes]) => [name, floatsOf(bytes)]))),
    };
  },
};

function bytesOf(values) {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

function floatsOf(bytes) {
  return new Float32Array(Uint8Array.from(bytes).buffer);
}
