import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { credentials, status } from '@grpc/grpc-js';
import { afterEach, expect, test } from 'vitest';
import { certify } from '../../packages/gateway/src/certificate-fixture.ts';
import { addGated } from './gated-model.ts';
import { grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { type Served, serve } from './serve.ts';

let served: Served | undefined;
let folder: ModelFolder | undefined;

afterEach(async () => {
  served?.process.kill('SIGKILL');
  await served?.ended;
  folder?.remove();
});

test('over mutual TLS a call and a stream of a client with a certificate are answered, one without is refused', async () => {
  folder = createModelFolder();
  const model = addGated(folder, 'model');
  model.open();
  const authority = certify('authority');
  const [server, known] = [certify('localhost', authority), certify('client', authority)];
  const file = (name: string, text: string) => {
    const path = join(folder?.path ?? '', name);
    writeFileSync(path, text);
    return path;
  };
  served = await serve(
    [folder.path],
    [
      '--grpc-use-ssl=true',
      '--grpc-use-ssl-mutual=true',
      `--grpc-server-cert=${file('cert.pem', server.cert)}`,
      `--grpc-server-key=${file('key.pem', server.key)}`,
      `--grpc-root-cert=${file('ca.pem', authority.cert)}`,
    ],
  );
  const address = served.grpc.replace('127.0.0.1', 'localhost');
  const trusted = Buffer.from(authority.cert);

  const client = grpcClient(address, credentials.createSsl(trusted, Buffer.from(known.key), Buffer.from(known.cert)));
  expect(valueIn((await client.infer(valueRequest('model', 5))).response)).toBe(5);
  const stream = client.stream();
  stream.send(valueRequest('model', 6));
  stream.halfClose();
  expect((await stream.rest()).map((answer) => valueIn(answer.infer_response))).toEqual([6]);
  client.close();

  const stranger = grpcClient(address, credentials.createSsl(trusted));
  expect((await stranger.infer(valueRequest('model', 7))).code).toBe(status.UNAVAILABLE);
  stranger.close();
  expect(model.begun()).toEqual([5, 6]);
});
