import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { oneInput } from './requests.ts';

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const KILLS = -1;
const FAILS = -2;
const HANGS = -3;
const LIMIT = { timeout: 20_000 };
/** Four rows run as one batch: the other three have to be found innocent. */
const SOURCE = `
  export async function execute(requests) {
    const values = requests.map(({ inputs }) => inputs.get('VALUE').data[0]);
    if (values.includes(${KILLS})) process.exit(3);
    if (values.includes(${HANGS})) await new Promise((go) => requests[0].signal.addEventListener('abort', go));
    return requests.map(({ inputs }, n) =>
      values[n] === ${FAILS} ? new Error('not this') : { outputs: { VALUE: inputs.get('VALUE') } });
  }`;
const CONFIG = `parameters { key: "nereid.carrier" value { string_value: "process" } }
  dynamic_batching { max_queue_delay_microseconds: 1000000 preferred_batch_size: 4 }`;

interface Call {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Of a job, a delivery, a dead letter, or an error. */
interface Body {
  readonly [member: string]: unknown;
  readonly id: string;
  readonly state: string;
  readonly data: object;
  readonly history: readonly unknown[];
}

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let receiver: Server;
  let hook: string;
  let calls: Call[];

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript('picky', SOURCE, CONFIG, { maxBatchSize: 4 });
    folder.addJavaScript('plain', SOURCE, '', { maxBatchSize: 4 });
    served = await deploy(mode, [folder.path], [`--webhook-secret=${SECRET}`, '--webhook-allow-private=true']);
  });
  afterAll(async () => {
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });
  beforeEach(async () => {
    calls = [];
    receiver = createServer((request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        calls.push({ headers: request.headers, body });
        response.writeHead(200).end();
      });
    });
    await listen(0);
    hook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  });
  afterEach(() => stopListening());

  const listen = (port: number) => new Promise<void>((resolve) => receiver.listen(port, '127.0.0.1', resolve));
  const stopListening = () => new Promise<void>((resolve) => receiver.close(() => resolve()));

  const call = async (method: string, path: string, body?: string, headers: Record<string, string> = {}) => {
    const init = { method, headers, ...(body === undefined ? {} : { body }) };
    const response = await fetch(`${served.http}${path}`, init);
    return { status: response.status, body: (await response.json()) as Body };
  };
  const submit = async (model: string, value: number, headers: Record<string, string> = {}) => {
    const body = oneInput('VALUE', 'INT32', [1, 1], [value]);
    const submitted = await call('POST', `/v2/models/${model}/jobs`, body, { 'Nereid-Attempts': '1', ...headers });
    expect(submitted).toMatchObject({ status: 202 });
    return submitted.body.id;
  };
  const ended = async (id: string) => (await call('GET', `/v2/jobs/${id}?wait=20s`)).body;

  test('a job tells its end to who asked for it, signed', async () => {
    const [well, ill] = [
      await submit('plain', 5, { 'Nereid-Webhook': hook }),
      await submit('plain', FAILS, { 'Nereid-Webhook': hook }),
    ];
    await expect.poll(() => calls.length, LIMIT).toBe(2);
    const told = calls.map(({ body, headers }) => new Webhook(SECRET).verify(body, headers as Record<string, string>));
    const { finished_at: finishedAt, result_url: resultUrl } = await ended(well);
    expect(told).toContainEqual({
      type: 'job.completed',
      timestamp: finishedAt,
      data: expect.objectContaining({ id: well, state: 'completed', finished_at: finishedAt, result_url: resultUrl }),
    });
    expect(told).toContainEqual(
      expect.objectContaining({
        type: 'job.failed',
        data: expect.objectContaining({ id: ill, state: 'failed', error: { code: 'INTERNAL', message: 'not this' } }),
      }),
    );
  });

  test('a job whose target is down is completed, and told once that is up (BC-136)', async () => {
    const port = Number(new URL(hook).port);
    await stopListening();
    const id = await submit('plain', 6, { 'Nereid-Webhook': hook });
    expect(await ended(id)).toMatchObject({ state: 'completed' });
    const delivery = async () => (await call('GET', `/v2/jobs/${id}/webhook`)).body;
    await expect
      .poll(delivery, LIMIT)
      .toMatchObject({ state: 'waiting', attempts_made: 1, error: expect.stringContaining('ECONNREFUSED') });
    // Nobody waits for it.
    expect(await ended(await submit('plain', 7))).toMatchObject({ state: 'completed' });
    const running = await submit('plain', HANGS, { 'Nereid-Webhook': hook });
    await expect.poll(async () => (await call('GET', `/v2/jobs/${running}`)).body.state, LIMIT).toBe('running');
    expect(await call('DELETE', `/v2/jobs/${running}`)).toMatchObject({ status: 200, body: { state: 'cancelled' } });
    await listen(port);
    expect(await call('POST', `/v2/jobs/${id}/webhook`)).toMatchObject({ status: 202 });
    await expect.poll(delivery, LIMIT).toMatchObject({ state: 'delivered' });
    // Its first attempt may have come before the target was up.
    await expect.poll(async () => (await call('POST', `/v2/jobs/${running}/webhook`)).status, LIMIT).toBe(202);
    await expect.poll(() => calls.length, LIMIT).toBeGreaterThan(1);
    const told = calls.map(({ body }) => JSON.parse(body));
    expect(told).toContainEqual(
      expect.objectContaining({ type: 'job.completed', data: expect.objectContaining({ id }) }),
    );
    expect(told).toContainEqual(
      expect.objectContaining({
        type: 'job.cancelled',
        data: expect.objectContaining({ id: running, state: 'cancelled' }),
      }),
    );
  });

  test('a webhook that cannot be called is refused before the job is taken', async () => {
    const body = oneInput('VALUE', 'INT32', [1, 1], [1]);
    const refused = await call('POST', '/v2/models/plain/jobs', body, { 'Nereid-Webhook': 'ftp://a.example' });
    expect(refused).toMatchObject({ status: 400, body: { code: 'INVALID_ARG', field: 'Nereid-Webhook' } });
  });

  test('a job that kills its process is set aside, alone of its batch, and runs again with other data', async () => {
    const ids = await Promise.all([1, KILLS, 3, 4].map((value) => submit('picky', value)));
    const jobs = await Promise.all(ids.map(ended));
    expect(jobs.map(({ state }) => state)).toEqual(['completed', 'failed', 'completed', 'completed']);
    const id = ids[1] ?? '';
    const listed = await call('GET', '/nereid/v1/deadletters?model=picky');
    expect(listed).toMatchObject({ status: 200, body: { deadletters: [{ id, error: { code: 'POISONED' } }] } });
    const letter = (await call('GET', `/nereid/v1/deadletters/${id}`)).body;
    expect(letter).toMatchObject({ id, attempts_made: 1, data: { inputs: [{ name: 'VALUE' }] } });
    expect(letter.history.length).toBe(1);

    const wrong = JSON.stringify({ data: { inputs: [] } });
    expect(await call('POST', `/nereid/v1/deadletters/${id}/replay`, wrong)).toMatchObject({ status: 400 });
    const fixed = { ...letter.data, inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1], data: [9] }] };
    const replayed = await call('POST', `/nereid/v1/deadletters/${id}/replay`, JSON.stringify({ data: fixed }));
    expect(replayed).toMatchObject({ status: 202, body: { id } });
    expect(await ended(id)).toMatchObject({ state: 'completed' });
    expect((await call('GET', `/v2/jobs/${id}/result`)).body).toMatchObject({ outputs: [{ data: [9] }] });
    expect(await call('GET', `/nereid/v1/deadletters/${id}`)).toMatchObject({ status: 404 });
  });

  test('a dead letter can be removed', async () => {
    const id = await submit('plain', FAILS);
    await ended(id);
    expect((await call('GET', '/nereid/v1/deadletters?model=plain')).body.deadletters).toContainEqual(
      expect.objectContaining({ id }),
    );
    expect(await call('DELETE', `/nereid/v1/deadletters/${id}`)).toMatchObject({ status: 200 });
    expect(await call('DELETE', `/nereid/v1/deadletters/${id}`)).toMatchObject({ status: 404 });
  });
});
