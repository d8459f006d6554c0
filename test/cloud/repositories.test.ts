/** What any repository in a cloud does, on a server of each kind. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { openRepositories, type Repositories } from '@nereid/repository';
import { systemClock } from '@nereid/runtime';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { runCli } from '../command.mjs';
import { clusterOn } from '../deployment.mjs';
import { infer, oneInput } from '../e2e/requests.ts';
import { startPrivateRedis } from '../private-redis.mjs';
import { hasStoreServer, type StoreKind, startStore, type TestStore } from './stores.ts';

const DOUBLES_CONFIG = `backend: "javascript"
input { name: "X" data_type: TYPE_INT32 dims: [ -1 ] }
output { name: "Y" data_type: TYPE_INT32 dims: [ -1 ] }
`;
const DOUBLES = `export const execute = (requests) => requests.map(({ inputs }) => {
  const { shape, data } = inputs.get('X');
  return { outputs: { Y: { datatype: 'INT32', shape, data: data.map((value) => 2 * value) } } };
});
`;
const HTTP_AT = /Started HTTPService at \S+:(\d+)/;

const KINDS: readonly StoreKind[] = ['s3', 'gcs', 'azure'];

const httpOf = (output: string) => `http://127.0.0.1:${HTTP_AT.exec(output)?.[1]}`;

const doubled = async (http: string) =>
  (await infer(http, 'doubles', oneInput('X', 'INT32', [2], [3, 4]))).outputs.get('Y')?.data;

const files = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

const kinds = KINDS.filter(hasStoreServer);

// Processes share the cores with other tests.
const LIMIT_MS = 120_000;

describe.each(kinds)('a repository in %s', { timeout: LIMIT_MS }, (kind) => {
  let store: TestStore;
  const opened: Repositories[] = [];

  const open = async (url = store.url('team/repository'), environment = store.environment) => {
    const repositories = await openRepositories([url], { environment, clock: systemClock() });
    opened.push(repositories);
    return repositories;
  };
  /** Of its own repository. */
  const servedModel = async () => {
    await store.put('served/doubles/config.pbtxt', DOUBLES_CONFIG);
    await store.put('served/doubles/1/model.mjs', DOUBLES);
    return store.url('served');
  };
  const signature = async (repositories: Repositories, model: string) =>
    (await repositories.list()).find(({ name }) => name === model)?.signature;

  beforeAll(async () => {
    store = await startStore(kind);
    await store.put('team/repository/beside.txt', 'no model');
    await store.put('team/repository/first/config.pbtxt', 'backend: "javascript"');
    await store.put('team/repository/first/1/model.mjs', 'export const one = 1;');
    await store.put('team/repository/first/1/data/odd name+ä%20.bin', new Uint8Array([0, 255, 10, 13]));
    await store.put('team/repository/first/.hidden', 'x');
    await store.put('team/repository/first/config.pbtxt~', 'x');
    await store.put('team/repository/second/1/empty', '');
  });
  afterEach(async () => {
    for (const repositories of opened.splice(0)) await repositories.close();
  });
  afterAll(() => store?.stop());

  test('lists its models, and lays them down whole', async () => {
    const repositories = await open();
    expect(await repositories.folders()).toEqual(['first', 'second'].map((name) => ({ name, conflict: null })));
    expect((await repositories.list()).map(({ name }) => name)).toEqual(['first', 'second']);
    const { directory } = await repositories.fetch('first');
    expect(files(directory)).toEqual(['1/data/odd name+ä%20.bin', '1/model.mjs', 'config.pbtxt']);
    expect([...readFileSync(join(directory, '1/data/odd name+ä%20.bin'))]).toEqual([0, 255, 10, 13]);
    expect(readFileSync(join(directory, '1/model.mjs'), 'utf8')).toBe('export const one = 1;');
    const second = await repositories.fetch('second');
    expect(statSync(join(second.directory, '1/empty')).size).toBe(0);
    await repositories.close();
    expect([existsSync(directory), existsSync(second.directory)]).toEqual([false, false]);
  });

  test('a model that has not changed is not laid down again; what has changed comes, and the old goes with its last holder', async () => {
    const repositories = await open();
    const before = await repositories.fetch('first');
    expect((await repositories.fetch('first')).directory).toBe(before.directory);
    const [listed, unchanged] = [await signature(repositories, 'first'), await signature(repositories, 'second')];
    await store.put('team/repository/first/.hidden', 'another');
    expect(await signature(repositories, 'first')).toBe(listed);

    await store.put('team/repository/first/config.pbtxt', 'backend: "onnxruntime"');
    expect(await signature(repositories, 'first')).not.toBe(listed);
    expect(await signature(repositories, 'second')).toBe(unchanged);
    const after = await repositories.fetch('first');
    expect(readFileSync(join(after.directory, 'config.pbtxt'), 'utf8')).toBe('backend: "onnxruntime"');
    // What was served goes on as it was.
    expect(readFileSync(join(before.directory, 'config.pbtxt'), 'utf8')).toBe('backend: "javascript"');
    // A file that is as it was is the same file.
    const inode = (directory: string) => statSync(join(directory, '1/model.mjs')).ino;
    expect(inode(after.directory)).toBe(inode(before.directory));
    before.release();
    before.release();
    expect(existsSync(before.directory)).toBe(true);
  });

  test('models come and go', async () => {
    const repositories = await open();
    await store.put('team/repository/third/1/model.mjs', 'export {};');
    expect((await repositories.folders()).map(({ name }) => name)).toEqual(['first', 'second', 'third']);
    await repositories.fetch('third');
    await store.remove('team/repository/third/1/model.mjs');
    expect((await repositories.list()).map(({ name }) => name)).toEqual(['first', 'second']);
    await expect(repositories.fetch('third')).rejects.toThrow("failed to load 'third'");
  });

  test('a bucket that is not there', async () => {
    const url = store.url('team/repository', 'elsewhere');
    const repositories = await open(url);
    const word = kind === 'azure' ? 'container' : 'bucket';
    const message = `the ${word} 'elsewhere' of the model repository '${url}' does not exist: create it or correct --model-repository`;
    await expect(repositories.folders()).rejects.toMatchObject({ code: 'INVALID_ARG', message });
    await expect(repositories.list()).rejects.toMatchObject({ code: 'INVALID_ARG', message });
  });

  test.runIf(kind === 's3')('keys that are wrong, and a server that is away', async () => {
    const repositories = await open();
    await repositories.folders();
    await store.askForKeys?.(true);
    await expect(repositories.folders()).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(
        /^access to the model repository 's3:.*' was denied \(InvalidAccessKeyId: .*\): check AWS_/,
      ),
    });
    await store.askForKeys?.(false);
    await repositories.folders();
    const closed = store.url('team/repository').replace(/:\d+/, ':1');
    await expect((await open(closed)).list()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(
        /^the model repository 's3:.*' cannot be reached \(.*ECONNREFUSED.*\): check its address/,
      ),
    });
  });

  test('M16: nereid serve has its models from there', async () => {
    const served = runCli(
      ['serve', `--model-repository=${await servedModel()}`, '--http-port=0', '--grpc-port=0', '--metrics-port=0'],
      store.environment,
    );
    const http = httpOf(await served.waitFor(HTTP_AT));
    expect(await doubled(http)).toEqual([6, 8]);
    const { code, output } = await served.stop();
    expect(code).toBe(0);
    // What SDKs say of themselves is no news.
    expect(output).not.toMatch(/warning|deprecat/i);
  });

  test.runIf(kind === 's3')('M16: roles of a cluster have them too, each its own copy', async () => {
    const redis = await startPrivateRedis();
    const repository = `--model-repository=${await servedModel()}`;
    const cluster = clusterOn(redis, store.environment);
    const gateway = cluster.start('gateway');
    const others = [cluster.start('coordinator', [repository]), cluster.start('worker', [repository])];
    try {
      const { http = '' } = await gateway.started;
      expect(await becomesReady(http, () => false, LIMIT_MS)).toBe(true);
      expect(await doubled(http)).toEqual([6, 8]);
    } finally {
      for (const role of [gateway, ...others]) await role.stop();
      await redis.stop();
    }
  });
});
