import { createServer, type IncomingMessage, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { NereidError } from '@nereid/protocol';
import { expect, test } from 'vitest';
import { bulkFile } from './bulk-file.ts';

async function readAll(raw: IncomingMessage): Promise<void> {
  const file = await bulkFile(raw, { blobFile: async () => undefined });
  for await (const _part of file?.parts ?? []);
}

/** What reading the file says, once its sender has left after the first bytes of it. */
async function readLeft(headers: Record<string, string>): Promise<unknown> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const sending = request({ port, host: '127.0.0.1', method: 'POST', headers: { ...headers, 'Content-Length': 99 } });
    sending.on('error', () => {}).write('{"a":');
    const raw = await new Promise<IncomingMessage>((resolve) => server.once('request', resolve));
    const reading = readAll(raw);
    sending.destroy();
    return await reading;
  } catch (thrown) {
    return thrown;
  } finally {
    server.close();
  }
}

test.each([{}, { 'Content-Type': 'application/json' }])(
  'a sender that leaves is no failure of the server: %j',
  async (headers) => {
    const thrown = await readLeft(headers);
    expect(thrown).toBeInstanceOf(NereidError);
    expect(thrown).toMatchObject({ code: 'CANCELLED' });
  },
);
