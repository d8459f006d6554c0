import { status } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import { addGated } from './gated-model.ts';
import { type GrpcClient, grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { eventually } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { type Served, serve } from './serve.ts';

const SHUTTING_DOWN = 'GRPC server is shutting down and has stopped accepting new requests.';
/** Gives VALUE back. */
const ANSWERS = `
  async function* answers({ inputs }) {
    yield { outputs: { VALUE: inputs.get('VALUE') } };
  }
  export const execute = (requests) => requests.map(answers);`;

let served: Served | undefined;
let folder: ModelFolder | undefined;
let client: GrpcClient | undefined;

afterEach(async () => {
  client?.close();
  served?.process.kill('SIGKILL');
  await served?.ended;
  folder?.remove();
});

test('a stop lets a stream finish what runs, refuses what it sends then, and ends those without requests', async () => {
  folder = createModelFolder();
  const gated = addGated(folder, 'gated');
  const quick = addGated(folder, 'quick');
  quick.open();
  folder.addJavaScript('decoupled', ANSWERS, 'model_transaction_policy { decoupled: true }');
  served = await serve([folder.path]);
  client = grpcClient(served.grpc);
  const idle = client.stream();
  idle.send(valueRequest('quick', 1));
  expect(valueIn((await idle.next())?.infer_response)).toBe(1);
  const busy = client.stream();
  busy.send(valueRequest('gated', 7));
  await eventually('it runs', async () => gated.begun().length === 1);

  const ending = served.stop();
  expect(await idle.rest()).toEqual([]);
  expect(await idle.ended).toEqual({ code: status.UNAVAILABLE, details: SHUTTING_DOWN });
  // What is said of a decoupled model's request waits for no answer before it.
  busy.send(valueRequest('decoupled', 2, { id: 'late' }));
  expect(await busy.next()).toMatchObject({ error_message: SHUTTING_DOWN, infer_response: { id: 'late' } });
  gated.open();
  expect(valueIn((await busy.next())?.infer_response)).toBe(7);
  expect(await busy.rest()).toEqual([]);
  expect(await busy.ended).toEqual({ code: status.UNAVAILABLE, details: SHUTTING_DOWN });
  expect(quick.begun()).toEqual([1]);
  expect((await ending).code).toBe(0);
});
