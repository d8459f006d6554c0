import { fileURLToPath } from 'node:url';
import { difference, inputsOf, outputsOf } from '../models/inputs.mjs';
import { missingPythonRivals, RIVAL_PYTHON } from './python-rivals.mjs';
import { startRival, whenReady } from './rival-process.mjs';

const SERVER = fileURLToPath(new URL('./litserve_server.py', import.meta.url));
const MODELS = ['add_sub', 'mlp'];

/** LitServe, in JSON, which is its own form. */
export const LITSERVE = {
  name: 'litserve',
  title: 'LitServe',
  serves: ({ model, encoding }) => MODELS.includes(model) && encoding === 'json',
  missing: missingPythonRivals,
  start: ({ port, models }) =>
    whenReady({
      port,
      path: '/health',
      processes: { server: startRival(RIVAL_PYTHON, [SERVER, `${port}`, models]) },
    }),
  request({ model, seed, outputs }) {
    const inputs = inputsOf(model, seed);
    const values = Object.fromEntries(inputs.map((tensor) => [tensor.name, Array.from(tensor.values)]));
    return {
      path: `/${model}`,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(values)),
      check: (body) => difference(outputs ?? outputsOf(model, inputs), new Map(Object.entries(JSON.parse(body)))),
    };
  },
};
