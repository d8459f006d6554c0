// A server inside this process, without a port:  node packages/server/examples/in-process.mjs
import { fileURLToPath } from 'node:url';
import { createServer } from '@nereid/server';

const server = await createServer({
  modelRepositories: [fileURLToPath(new URL('../../../model_repository', import.meta.url))],
});
const { outputs } = await server.infer({
  model: 'redact',
  inputs: { TEXT: { datatype: 'BYTES', shape: [1, 1], data: ['write to ada@example.org'] } },
});
process.stdout.write(`${Buffer.from(outputs.REDACTED.data[0])}, ${outputs.COUNT.data[0]} masked\n`);
await server.stop();
