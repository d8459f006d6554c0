/** Servers that speak the clouds' protocols: moto (S3), gcp-storage-emulator, Azurite. `npm test` installs them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { BlobServiceClient } from '@azure/storage-blob';
import { STORE_SERVERS } from '../../deploy/setup/object-stores.mjs';
import { freePorts } from '../free-ports.mjs';

const START_LIMIT_MS = 40_000;

/** A bucket on a server of its own. */
export interface TestStore {
  /** What `--model-repository` names a path in the bucket by, or in another one. */
  url(path: string, bucket?: string): string;
  readonly environment: Readonly<Record<string, string>>;
  put(key: string, contents: string | Uint8Array): Promise<void>;
  remove(key: string): Promise<void>;
  /** Of S3's server: whether it asks for the right keys from now on; until then it takes any. */
  askForKeys?(asks: boolean): Promise<void>;
  /** Idempotent. */
  stop(): Promise<void>;
}

export type StoreKind = keyof typeof STORE_SERVERS;

export function hasStoreServer(kind: StoreKind): boolean {
  return existsSync(STORE_SERVERS[kind]);
}

const STARTS: Readonly<Record<StoreKind, () => Promise<TestStore>>> = { s3: startS3, gcs: startGcs, azure: startAzure };

export const startStore = (kind: StoreKind): Promise<TestStore> => STARTS[kind]();

const BUCKET = 'models';

/** The owner's signature, which moto does not compute. */
const SIGNED =
  'AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0';

async function startS3(): Promise<TestStore> {
  const { port, stop } = await startServer(STORE_SERVERS.s3, (port) => ['-H', '127.0.0.1', '-p', String(port)]);
  const http = `http://127.0.0.1:${port}`;
  const call = (method: string, path: string, body?: string | Uint8Array) =>
    ask(method, `${http}${path}`, body, { authorization: SIGNED });
  await call('PUT', `/${BUCKET}`);
  const keyPath = (key: string) => `/${BUCKET}/${encodeURI(key)}`;
  return {
    url: (path, bucket = BUCKET) => `s3://127.0.0.1:${port}/${bucket}/${path}`,
    environment: { AWS_ACCESS_KEY_ID: 'testing', AWS_SECRET_ACCESS_KEY: 'testing', AWS_DEFAULT_REGION: 'us-east-1' },
    put: (key, contents) => call('PUT', keyPath(key), contents),
    remove: (key) => call('DELETE', keyPath(key)),
    askForKeys: (asks) => call('POST', '/moto-api/reset-auth', asks ? '0' : 'inf'),
    stop,
  };
}

async function startGcs(): Promise<TestStore> {
  const flags = (port: number) => ['start', '--host', '127.0.0.1', '--port', String(port), '--in-memory'];
  const { port, stop } = await startServer(STORE_SERVERS.gcs, flags);
  const http = `http://127.0.0.1:${port}`;
  const call = (method: string, path: string, body?: string | Uint8Array, type = 'application/octet-stream') =>
    ask(method, `${http}${path}`, body, { 'content-type': type });
  await call('POST', '/storage/v1/b?project=test', JSON.stringify({ name: BUCKET }), 'application/json');
  return {
    url: (path, bucket = BUCKET) => `gs://${bucket}/${path}`,
    environment: { STORAGE_EMULATOR_HOST: http },
    put: (key, contents) => {
      // Its other ways of upload take no empty file.
      const part = (type: string) => `--part\r\ncontent-type: ${type}\r\n\r\n`;
      const name = JSON.stringify({ name: key }).replace(/[\u0080-\uffff]/g, escaped);
      const body = Buffer.concat([
        Buffer.from(`${part('application/json')}${name}\r\n${part('application/octet-stream')}`),
        Buffer.from(contents),
        Buffer.from('\r\n--part--\r\n'),
      ]);
      const path = `/upload/storage/v1/b/${BUCKET}/o?uploadType=multipart`;
      return call('POST', path, body, 'multipart/related; boundary=part');
    },
    remove: (key) => call('DELETE', `/storage/v1/b/${BUCKET}/o/${encodeURIComponent(key)}`),
    stop,
  };
}

/** Other letters than ASCII's it takes only like this. */
function escaped(letter: string): string {
  return `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The account and key that Azurite has, which its documentation names. */
const AZURITE_ACCOUNT = 'devstoreaccount1';
const AZURITE_KEY = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==';

async function startAzure(): Promise<TestStore> {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-azurite-'));
  const { port, stop } = await startServer(process.execPath, (port) => [
    ...[STORE_SERVERS.azure, '--blobHost', '127.0.0.1', '--blobPort', String(port), '--location', folder],
    // The SDK may speak a later version of the protocol than the server names.
    ...['--silent', '--skipApiVersionCheck', '--disableTelemetry'],
  ]);
  const endpoint = `http://127.0.0.1:${port}/${AZURITE_ACCOUNT}`;
  const login = `DefaultEndpointsProtocol=http;AccountName=${AZURITE_ACCOUNT};AccountKey=${AZURITE_KEY}`;
  const service = BlobServiceClient.fromConnectionString(`${login};BlobEndpoint=${endpoint}`);
  const container = service.getContainerClient(BUCKET);
  await container.create();
  return {
    url: (path, bucket = BUCKET) => `as://127.0.0.1:${port}/${AZURITE_ACCOUNT}/${bucket}/${path}`,
    environment: { AZURE_STORAGE_ACCOUNT: AZURITE_ACCOUNT, AZURE_STORAGE_KEY: AZURITE_KEY },
    async put(key, contents) {
      await container.getBlockBlobClient(key).uploadData(Buffer.from(contents));
    },
    async remove(key) {
      await container.deleteBlob(key);
    },
    async stop() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A call on a connection of its own. */
async function ask(method: string, url: string, body: string | Uint8Array = '', headers: OutgoingHttpHeaders = {}) {
  const call = request(url, {
    method,
    agent: false,
    headers: { ...headers, 'content-length': Buffer.byteLength(body) },
  });
  const answered = once(call, 'response') as Promise<[IncomingMessage]>;
  call.end(body);
  const [answer] = await answered;
  const text = Buffer.concat(await answer.toArray()).toString();
  if ((answer.statusCode ?? 0) >= 300) throw new Error(`${method} ${url}: ${answer.statusCode} ${text}`);
}

async function startServer(program: string, flags: (port: number) => readonly string[]) {
  const [port = 0] = await freePorts(1);
  const child = spawn(program, flags(port), { stdio: ['ignore', 'pipe', 'pipe'] });
  const output: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.push(chunk));
  const ended = once(child, 'close');
  if (!(await answers(child, port))) {
    child.kill('SIGKILL');
    throw new Error(`${program} does not answer:\n${Buffer.concat(output)}`);
  }
  const stop = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  return { port, stop };
}

async function answers(child: ChildProcess, port: number): Promise<boolean> {
  const end = performance.now() + START_LIMIT_MS;
  while (performance.now() < end && child.exitCode === null) {
    try {
      await fetch(`http://127.0.0.1:${port}/`);
      return true;
    } catch {
      await delay(50);
    }
  }
  return false;
}
