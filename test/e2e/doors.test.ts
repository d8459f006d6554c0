import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { certify } from '../../packages/gateway/src/certificate-fixture.ts';
import { runCli } from '../command.mjs';
import { clusterOn, type Deployment, deploy, flagEnvironment, MODES } from '../deployment.mjs';
import { type PrivateRedis, startPrivateRedis } from '../private-redis.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';
import { askOverTls, readyOverTls } from './tls-client.ts';

/** Answers how many parameters it has been given whose values are numbers, added up. */
const SUMS_PARAMETERS = `
  export const execute = (requests) => requests.map(({ parameters }) => {
    const values = Object.values(parameters).map(Number);
    const sum = values.reduce((a, b) => a + b, 0);
    return { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(sum) } } };
  });`;
const ECHO = `
  export const execute = (requests) => requests.map((request) => ({ outputs: { VALUE: request.inputs.get('VALUE') } }));`;
const HTTP_AT = /Started HTTPService at \S+:(\d+), over TLS/;

let models: ModelFolder;
let folder: string;

beforeAll(() => {
  models = createModelFolder();
  models.addJavaScript('sums_parameters', SUMS_PARAMETERS);
  models.addJavaScript('echo', ECHO);
  folder = mkdtempSync(join(tmpdir(), 'nereid-doors-'));
});
afterAll(() => {
  models.remove();
  rmSync(folder, { recursive: true });
});

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

describe.each(MODES)('in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(
      mode,
      [models.path],
      [
        '--http-restricted-api=model-config:admin-key=secret',
        '--http-header-forward-pattern=^x-add-',
        '--http-cors-origin=https://page.example',
      ],
    );
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
  });

  test('a restricted API is served only with its key, by every gateway', async () => {
    for (const { http } of served.gateways) {
      const url = `${http}/v2/models/echo/config`;
      const refused = await fetch(url);
      expect([refused.status, await refused.json()]).toEqual([
        403,
        { error: "This API is restricted, expecting header 'admin-key'" },
      ]);
      expect((await fetch(url, { headers: { 'admin-key': 'secret' } })).status).toBe(200);
      expect((await fetch(`${http}/v2/models/echo`)).status).toBe(200);
    }
  });

  test('forwarded headers reach the model', async () => {
    const headers = { 'X-Add-One': '40', 'x-add-two': '2', other: '1000' };
    const answer = await infer(served.http, 'sums_parameters', oneInput('VALUE', 'INT32', [1], [0]), headers);
    expect(answer.outputs.get('VALUE')?.data).toEqual([42]);
  });

  test('pages of the origin may call', async () => {
    const headers = { origin: 'https://page.example', 'access-control-request-method': 'POST' };
    const answer = await fetch(`${served.http}/v2/models/echo/infer`, { method: 'OPTIONS', headers });
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([204, 'https://page.example']);
  });

  test('tensors go through shared memory, at the gateway that knows the region', async () => {
    const key = `nereid-test-${process.pid}-${mode}`;
    const path = join('/dev/shm', key);
    writeFileSync(path, new Uint8Array(Int32Array.of(0, 7, 0).buffer));
    try {
      const post = (url: string, body: object) =>
        fetch(`${served.http}${url}`, { method: 'POST', body: JSON.stringify(body) });
      const registered = await post('/v2/systemsharedmemory/region/e2e/register', { key: `/${key}`, byte_size: 12 });
      expect([registered.status, await registered.text()]).toEqual([200, '']);
      const place = (offset: number) => {
        return { shared_memory_region: 'e2e', shared_memory_offset: offset, shared_memory_byte_size: 4 };
      };
      const request = {
        inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], parameters: place(4) }],
        outputs: [{ name: 'VALUE', parameters: place(8) }],
      };
      const answer = await post('/v2/models/echo/infer', request);
      expect([answer.status, await answer.json()]).toMatchObject([200, { outputs: [{ name: 'VALUE', shape: [1] }] }]);
      expect([...new Int32Array(Uint8Array.from(readFileSync(path)).buffer)]).toEqual([0, 7, 7]);
      for (const { http } of served.gateways.slice(1)) {
        const elsewhere = await infer(http, 'echo', JSON.stringify(request));
        expect([elsewhere.status, elsewhere.error]).toEqual([404, "Unable to find shared memory region: 'e2e'"]);
      }
      expect((await post('/v2/systemsharedmemory/unregister', {})).status).toBe(200);
    } finally {
      rmSync(path);
    }
  });
});

describe('over TLS, with certificates of clients', () => {
  const authority = certify('authority');
  const server = certify('server', authority);
  const client = certify('client', authority);
  const tls = { ca: authority.cert, cert: client.cert, key: client.key };
  const body = oneInput('VALUE', 'INT32', [1], [5]);
  let flags: readonly string[];

  beforeAll(() => {
    flags = [
      `--model-repository=${models.path}`,
      `--http-tls-cert=${file('cert.pem', server.cert)}`,
      `--http-tls-key=${file('key.pem', server.key)}`,
      `--http-tls-client-ca=${file('ca.pem', authority.cert)}`,
    ];
  });

  async function expectServed(output: string): Promise<void> {
    const base = `https://127.0.0.1:${HTTP_AT.exec(output)?.[1]}`;
    await readyOverTls(base, tls);
    const answer = await askOverTls(`${base}/v2/models/echo/infer`, tls, body);
    expect([answer.status, JSON.parse(answer.text).outputs[0].data]).toEqual([200, [5]]);
    await expect(askOverTls(`${base}/v2/health/live`, { ca: authority.cert })).rejects.toThrow();
  }

  test('one process', async () => {
    const running = runCli(['serve', '--http-port=0', '--metrics-port=0', '--grpc-port=0', ...flags]);
    try {
      await expectServed(await running.waitFor(HTTP_AT));
      expect((await running.stop()).code).toBe(0);
    } finally {
      running.process.kill('SIGKILL');
      await running.ended;
    }
  });

  test('a gateway of its own', async () => {
    const redis: PrivateRedis = await startPrivateRedis();
    const cluster = clusterOn(redis, flagEnvironment(flags));
    const running = (['gateway', 'coordinator', 'worker'] as const).map((role) => cluster.start(role));
    try {
      const [gateway] = running;
      await expectServed((await gateway?.waitFor(HTTP_AT)) ?? '');
    } finally {
      for (const one of running) one.process.kill('SIGKILL');
      await Promise.all(running.map(({ ended }) => ended));
      await redis.stop();
    }
  });
});

const bad: readonly (readonly [string, () => readonly string[], RegExp])[] = [
  [
    'a restricted API that is none',
    () => ['--http-restricted-api=helth:k=v'],
    /--http-restricted-api: unknown API 'helth'; give some of health/,
  ],
  [
    'an API with two keys',
    () => ['--http-restricted-api=health:a=b', '--http-restricted-api=health:c=d'],
    /'health' is given twice/,
  ],
  [
    'a pattern that is none',
    () => ['--http-header-forward-pattern=('],
    /--http-header-forward-pattern: '\(' is no RE2 expression/,
  ],
  [
    'a certificate that is not there',
    () => ['--http-tls-cert=/nowhere.pem', '--http-tls-key=/nowhere.pem'],
    /--http-tls-cert: \/nowhere\.pem cannot be used/,
  ],
  [
    'a key of another certificate',
    () => [`--http-tls-cert=${file('a.pem', certify('a').cert)}`, `--http-tls-key=${file('b.pem', certify('b').key)}`],
    /--http-tls-key: .*not the key of the certificate of --http-tls-cert/,
  ],
];

test.each(bad)('%s ends the start with 2 and one line', async (_what, flags, text) => {
  const ports = ['--http-port=0', '--metrics-port=0'];
  const { ended } = runCli(['serve', `--model-repository=${join(ROOT, 'model_repository')}`, ...ports, ...flags()]);
  const { code, output } = await ended;
  expect(code, output).toBe(2);
  expect(output.trimEnd().split('\n')).toHaveLength(1);
  expect(output).toMatch(text);
});
