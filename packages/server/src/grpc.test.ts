import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, credentials, type ServiceError } from '@grpc/grpc-js';
import { decodeGrpcInferRequest, encodeGrpcResponse, readGrpcInferDocument } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createServer, type Server, type ServerOptions } from './index.ts';

const SERVICE = '/inference.GRPCInferenceService';
const CONFIG = `backend: "javascript"
  input [{ name: "IN", data_type: TYPE_UINT8, dims: [ -1 ] }]
  output [{ name: "IN", data_type: TYPE_UINT8, dims: [ -1 ] }]`;
const CODE = `export async function execute(requests) {
  return Promise.all(requests.map(async ({ inputs, parameters }) => {
    const { shape, data } = inputs.get('IN');
    if (parameters.wait_ms) await new Promise((resolve) => setTimeout(resolve, Number(parameters.wait_ms)));
    return { outputs: { IN: { datatype: 'UINT8', shape, data } } };
  }));
}`;

let repository: string;
let server: Server | undefined;
let client: Client | undefined;

beforeEach(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-grpc-'));
  await mkdir(join(repository, 'echo', '1'), { recursive: true });
  await writeFile(join(repository, 'echo', 'config.pbtxt'), CONFIG);
  await writeFile(join(repository, 'echo', '1', 'model.mjs'), CODE);
});

afterEach(async () => {
  client?.close();
  await server?.stop();
  await rm(repository, { recursive: true, force: true });
});

async function start(grpc: Partial<ServerOptions['grpc']> = {}): Promise<Client> {
  server = await createServer({ modelRepositories: [repository], grpc: { address: '127.0.0.1', port: 0, ...grpc } });
  client = new Client(server.urls.grpc ?? '', credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
  });
  return client;
}

function call(to: Client, method: string, request: Uint8Array): Promise<Buffer> {
  const pass = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return new Promise((resolve, reject) => {
    const answered = (failure: ServiceError | null, answer?: Buffer) => {
      if (failure === null && answer !== undefined) resolve(answer);
      else reject(failure);
    };
    to.makeUnaryRequest(`${SERVICE}/${method}`, pass, pass, request, answered);
  });
}

/**
 * A request as an answer: its fields up to the parameters have the numbers of the answer's, its inputs
 * those of the outputs, and its raw contents, field 7 where an answer has 6, are put behind by hand.
 */
function inferBytes(data: Uint8Array, parameters: Record<string, bigint> = {}): Buffer {
  const head = encodeGrpcResponse({ modelName: 'echo', modelVersion: '', id: 'call', parameters, outputs: [] });
  const shape = Buffer.concat(
    encodeGrpcResponse({
      modelName: '',
      modelVersion: '',
      id: '',
      parameters: {},
      outputs: [{ name: 'IN', datatype: 'UINT8', shape: [data.length], data: new Uint8Array(0) }],
    }),
  ).subarray(0, -2);
  const length: number[] = [];
  for (let rest = data.length; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) {
      length.push(rest);
      break;
    }
    length.push((rest % 128) | 0x80);
  }
  return Buffer.concat([...head, shape, Uint8Array.of(0x3a, ...length), data]);
}

test('the bytes of these tests are a request', () => {
  const { request } = decodeGrpcInferRequest(readGrpcInferDocument(inferBytes(Uint8Array.of(1, 2), { p: 3n })), {
    modelVersion: '',
    limits: { elements_max: 1, bytes_max: 1 },
  });
  expect(request).toMatchObject({
    modelName: 'echo',
    id: 'call',
    parameters: { p: 3n },
    inputs: [{ name: 'IN', datatype: 'UINT8', shape: [2], data: Uint8Array.of(1, 2) }],
  });
});

describe('a server with gRPC', () => {
  test('tells where it listens and answers there', async () => {
    const to = await start();
    expect(server?.urls.grpc).toMatch(/^127\.0\.0\.1:\d+$/);
    expect([...(await call(to, 'ServerLive', new Uint8Array(0)))]).toEqual([0x08, 1]);
    const answer = await call(to, 'ModelInfer', inferBytes(Uint8Array.of(7, 8, 9)));
    expect([...answer.subarray(-5)]).toEqual([0x32, 3, 7, 8, 9]);
    expect(server?.counts()).toMatchObject({ waiting: 0, running: 0 });
  });

  test('has no port without it', async () => {
    server = await createServer({ modelRepositories: [repository] });
    expect(server.urls).not.toHaveProperty('grpc');
  });

  test('finishes what runs when it is stopped', async () => {
    const to = await start();
    const answer = call(to, 'ModelInfer', inferBytes(Uint8Array.of(7), { wait_ms: 300n }));
    await expect.poll(() => server?.counts().running).toBe(1);
    const stopped = server?.stop();
    await expect(call(to, 'ServerLive', new Uint8Array(0))).rejects.toMatchObject({
      code: 14,
      details: 'GRPC server is shutting down and has stopped accepting new requests.',
    });
    expect((await answer).at(-1)).toBe(7);
    await stopped;
  });

  test('a tensor of 200 MB passes both ways', async () => {
    const to = await start();
    const data = new Uint8Array(200_000_000);
    data[0] = 1;
    data[data.length - 1] = 2;
    const answer = await call(to, 'ModelInfer', inferBytes(data));
    expect(answer.subarray(-data.length).equals(data)).toBe(true);
  });

  test.each<[string, object, string]>([
    ['a port that is none', { port: -1 }, 'grpc.port must be a whole number from 0 to 65535'],
    ['an unknown level', { compressionLevel: 'best' }, 'grpc.compressionLevel must be one of none, low, medium, high'],
    ['a negative age', { connections: { age_max_ms: -1 } }, 'grpc.connections.age_max_ms must be a whole number'],
    ['half of TLS', { tls: { cert: 'a' } }, 'grpc.tls must be an object with the files cert and key'],
    ['a file that is not there', { tls: { cert: '/none', key: '/none' } }, '--grpc-server-cert: /none cannot be used'],
    ['an unknown API', { restrictedProtocol: ['all:k=v'] }, "--grpc-restricted-protocol: unknown API 'all'"],
    ['a broken pattern', { headerForwardPattern: '(' }, "--grpc-header-forward-pattern: '(' is no RE2 expression"],
  ])('refuses %s', async (_what, grpc, text) => {
    await expect(start(grpc)).rejects.toThrow(text);
    server = undefined;
  });
});
