import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { addGated, type GatedModel } from './gated-model.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { limitMs } from './time-limits.ts';

const WAIT_MS = limitMs(30_000);

/** Gives VALUE back; fails for a negative one until there is the file `mended`. */
const doubtful = (mended: string) => `
  import { existsSync } from 'node:fs';
  export const execute = (requests) => requests.map(({ inputs }) => {
    const VALUE = inputs.get('VALUE');
    if (VALUE.data[0] < 0 && !existsSync(${JSON.stringify(mended)})) return new Error('not yet');
    return { outputs: { VALUE } };
  });`;

/** A job, a list of them, or what infer answers. */
interface AnswerBody {
  readonly id: string;
  readonly state: string;
  readonly result_url: string;
  readonly finished_at?: string;
  readonly jobs: readonly { readonly id: string }[];
  readonly outputs: readonly { readonly data: readonly number[] }[];
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: AnswerBody;
}

describe.each(MODES)('jobs over HTTP in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let gated: GatedModel;

  beforeAll(async () => {
    folder = createModelFolder();
    gated = addGated(folder, 'gated');
    folder.addJavaScript('doubtful', doubtful(`${folder.path}/mended`));
    served = await deploy(mode, [folder.path]);
  });
  afterAll(async () => {
    gated.open();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  async function call(
    method: string,
    path: string,
    headers: Record<string, string> = {},
    body?: unknown,
  ): Promise<Answer> {
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const answer = await fetch(`${served.http}${path}`, init);
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text === '' ? {} : JSON.parse(text) };
  }

  const request = (value: number) => ({ inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], data: [value] }] });
  const submit = (model: string, value: number, headers: Record<string, string> = {}) =>
    call('POST', `/v2/models/${model}/jobs`, headers, request(value));
  const job = (id: string, query = '') => call('GET', `/v2/jobs/${id}${query}`);

  test('a job that runs is cancelled: its model hears it, and its instance goes on with the next', async () => {
    const running = await submit('gated', 1);
    await expect.poll(() => gated.begun(), { timeout: WAIT_MS }).toContain(1);
    const behind = await submit('gated', 2, { 'Nereid-Delay-Ms': '600000', 'Nereid-Tag': 'late' });
    expect((await job(running.body.id)).body.state).toBe('running');
    const cancelled = await call('DELETE', `/v2/jobs/${running.body.id}`);
    expect(cancelled).toMatchObject({
      status: 200,
      body: { state: 'cancelled', error: { code: 'CANCELLED' }, attempts_made: 1 },
    });
    await expect.poll(() => gated.aborted(), { timeout: WAIT_MS }).toEqual([1]);

    // A delayed one ends at once, without having run.
    expect((await call('DELETE', `/v2/jobs/${behind.body.id}`)).body).toMatchObject({
      state: 'cancelled',
      tags: ['late'],
    });
    await expect
      .poll(async () => (await job(behind.body.id)).body.finished_at, { timeout: WAIT_MS })
      .toEqual(expect.any(String));
    expect((await call('GET', `/v2/jobs/${behind.body.id}/result`)).status).toBe(400);
    expect((await call('GET', '/v2/jobs?model=gated&state=cancelled')).body.jobs).toHaveLength(2);
    expect((await call('GET', '/v2/jobs?tag=late')).body.jobs).toMatchObject([{ id: behind.body.id }]);

    gated.open();
    const next = await submit('gated', 3);
    expect((await call('GET', `${next.body.result_url}?wait=30s`)).body.outputs[0]?.data).toEqual([3]);
    expect(gated.begun()).toEqual([1, 3]);
  });

  test('a job that has failed runs anew once its model is mended, and is removed in the end', async () => {
    const { body: submitted } = await submit('doubtful', -1, { 'Nereid-Attempts': '1', 'Idempotency-Key': 'once' });
    const failed = await call('GET', `${submitted.result_url}?wait=30s`);
    expect(failed).toMatchObject({ status: 500, body: { error: 'not yet' } });
    writeFileSync(`${folder.path}/mended`, '');
    expect(await call('POST', `/v2/jobs/${submitted.id}/retry`)).toMatchObject({ status: 202 });
    expect((await call('GET', `${submitted.result_url}?wait=30s`)).body.outputs[0]?.data).toEqual([-1]);
    const { body: ended } = await job(submitted.id);
    expect(ended).toMatchObject({ state: 'completed', attempts_made: 1, batch_size: 1, worker: expect.any(String) });

    const again = await submit('doubtful', -1, { 'Nereid-Attempts': '1', 'Idempotency-Key': 'once' });
    expect(again).toMatchObject({ status: 200, body: { id: submitted.id, state: 'completed' } });
    expect(await submit('doubtful', 5, { 'Idempotency-Key': 'once' })).toMatchObject({
      status: 409,
      body: { code: 'ALREADY_EXISTS' },
    });
    expect((await call('DELETE', `/v2/jobs/${submitted.id}?only=remove`)).status).toBe(204);
    expect((await job(submitted.id)).status).toBe(404);
  });

  test('infer that prefers to is a job, or its answer', async () => {
    const path = '/v2/models/doubtful/infer';
    const waited = await call('POST', path, { Prefer: 'respond-async, wait=30' }, request(7));
    expect(waited).toMatchObject({ status: 200, body: { outputs: [{ data: [7] }] } });
    expect(waited.headers.get('preference-applied')).toBe('respond-async, wait=30');
    const later = await call('POST', path, { Prefer: 'respond-async' }, request(8));
    expect(later.status).toBe(202);
    const result = await call('GET', `${later.headers.get('location')}/result?wait=30s`);
    expect(result.body.outputs[0]?.data).toEqual([8]);
  });
});
