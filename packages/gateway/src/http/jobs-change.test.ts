import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type JobsFixture, jobsFixture } from './jobs-fixture.ts';

let server: RedisServerFixture;
let jobs: JobsFixture;
let other: JobsFixture;
let model: string;
let models = 0;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  models++;
  model = `m${models}`;
  // Two gateways of one cluster.
  [jobs, other] = (await Promise.all([1, 2].map(() => jobsFixture(server.url, [model, `${model}b`])))) as [
    JobsFixture,
    JobsFixture,
  ];
});
afterEach(() => Promise.all([jobs.close(), other.close()]));

const body = (value = 1) => ({ inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1], data: [value] }] });

async function submit(headers: Record<string, string> = {}, payload: object = body(), at = jobs, of = model) {
  const answer = await at.http.inject({ method: 'POST', url: `/v2/models/${of}/jobs`, payload, headers });
  return { status: answer.statusCode, ...answer.json() };
}

async function call(method: 'DELETE' | 'POST' | 'GET', url: string, at = jobs) {
  const answer = await at.http.inject({ method, url });
  return { status: answer.statusCode, ...(answer.body === '' ? {} : answer.json()) };
}

const bullId = (id: string) => id.slice(id.indexOf('~') + 1);

describe('DELETE', () => {
  test.each([
    ['waits', {}],
    ['is delayed', { 'Nereid-Delay-Ms': '60000' }],
  ])('cancels a job that %s, while no owner lives', async (_how, headers) => {
    const { id, result_url } = await submit(headers);
    const cancelled = {
      status: 200,
      id,
      state: 'cancelled',
      error: { code: 'CANCELLED', message: 'the job was cancelled' },
    };
    expect(await call('DELETE', `/v2/jobs/${id}`)).toMatchObject(cancelled);
    // Again, at another gateway.
    expect(await call('DELETE', `/v2/jobs/${id}`, other)).toMatchObject(cancelled);
    expect(await call('GET', `/v2/jobs/${id}`, other)).toMatchObject(cancelled);
    expect(await call('GET', result_url)).toMatchObject({ status: 400, code: 'CANCELLED' });
    expect(jobs.cancelled).toEqual([]);
  });

  test('cancels a job that runs, by its owner', async () => {
    const taken: string[] = [];
    const taker = jobs.take(model, ({ id }) => taken.push(id));
    const { id } = await submit();
    await expect.poll(() => taken.length).toBe(1);
    jobs.onCancel = (told) => void taker.fail(told, 'CANCELLED: the job was cancelled', false);
    expect(await call('DELETE', `/v2/jobs/${id}`)).toMatchObject({ status: 200, state: 'cancelled', attempts_made: 1 });
    expect(jobs.cancelled).toEqual([bullId(id)]);
  });

  test('of a job that runs tells an owner that does not hear twice, and leaves the mark', async () => {
    const taken: string[] = [];
    const taker = jobs.take(model, ({ id }) => taken.push(id));
    const { id } = await submit({ 'Nereid-Attempts': '5' });
    await expect.poll(() => taken.length).toBe(1);
    expect(await call('DELETE', `/v2/jobs/${id}`)).toMatchObject({ status: 200, state: 'cancelled' });
    expect(jobs.cancelled).toEqual([bullId(id), bullId(id)]);
    // It ended all the same, which counts.
    await taker.complete(bullId(id), { outputs: [] });
    expect(await call('GET', `/v2/jobs/${id}`)).toMatchObject({ state: 'completed' });
  });

  test('removes a job that is over', async () => {
    jobs.echo(model);
    const { id, result_url } = await submit();
    await call('GET', `${result_url}?wait=20s`);
    expect(await call('DELETE', `/v2/jobs/${id}`)).toEqual({ status: 204 });
    for (const method of ['GET', 'DELETE'] as const) {
      expect(await call(method, `/v2/jobs/${id}`)).toMatchObject({ status: 404, code: 'NOT_FOUND' });
    }
  });

  test('does only the one of both that is asked for', async () => {
    const { id, result_url } = await submit();
    expect(await call('DELETE', `/v2/jobs/${id}?only=remove`)).toMatchObject({
      status: 409,
      error: `job '${id}' is waiting: only one that is over is removed; cancel it`,
    });
    jobs.echo(model);
    await call('GET', `${result_url}?wait=20s`);
    expect(await call('DELETE', `/v2/jobs/${id}?only=cancel`)).toMatchObject({
      status: 409,
      error: `job '${id}' has completed: there is nothing to cancel`,
    });
    expect(await call('DELETE', `/v2/jobs/${id}?only=all`)).toMatchObject({ status: 400, field: 'only' });
    expect(await call('DELETE', `/v2/jobs/${id}?only=remove`)).toEqual({ status: 204 });
  });
});

describe('retry', () => {
  test('runs a failed job anew, and a cancelled one', async () => {
    let isBroken = true;
    jobs.take(model, ({ id, data }, taker) => {
      if (isBroken) void taker.fail(id, 'INTERNAL: broken', false);
      else if ((data as { cancelled?: true }).cancelled) void taker.fail(id, 'CANCELLED: x', false);
      else void taker.complete(id, { model_name: model, model_version: '1', outputs: [] });
    });
    const { id, result_url } = await submit();
    expect(await call('GET', `${result_url}?wait=20s`)).toMatchObject({ status: 500, error: 'broken' });
    isBroken = false;
    expect(await call('POST', `/v2/jobs/${id}/retry`)).toMatchObject({ status: 202, id });
    expect(await call('GET', `${result_url}?wait=20s`)).toMatchObject({ status: 200 });
    expect(await call('POST', `/v2/jobs/${id}/retry`)).toMatchObject({
      status: 409,
      error: `job '${id}' has completed: only one that has failed or was cancelled is run anew`,
    });

    const late = await submit({ 'Nereid-Delay-Ms': '60000' });
    await call('DELETE', `/v2/jobs/${late.id}`);
    expect(await call('GET', `/v2/jobs/${late.id}?wait=20s`)).toMatchObject({ state: 'cancelled', attempts_made: 1 });
    expect(await call('POST', `/v2/jobs/${late.id}/retry`)).toMatchObject({ status: 202 });
    expect(await call('GET', `${late.result_url}?wait=20s`)).toMatchObject({ status: 200 });
    expect(await call('GET', `/v2/jobs/${late.id}`)).toMatchObject({ state: 'completed', attempts_made: 1 });
  });

  test('is refused past the deadline, before the end, and of no job', async () => {
    const { id } = await submit();
    expect(await call('POST', `/v2/jobs/${id}/retry`)).toMatchObject({ status: 409, code: 'INVALID_ARG' });
    jobs.take(model, ({ id }, taker) => void taker.fail(id, 'INTERNAL: broken', false));
    const late = await submit({ 'Nereid-Deadline-Ms': '1' });
    expect(await call('GET', `/v2/jobs/${late.id}?wait=20s`)).toMatchObject({ state: 'failed' });
    expect(await call('POST', `/v2/jobs/${late.id}/retry`)).toMatchObject({
      status: 409,
      error: `job '${late.id}' has failed: its deadline is over; submit it anew`,
    });
    expect(await call('POST', `/v2/jobs/${model}~none/retry`)).toMatchObject({ status: 404 });
    expect(await call('DELETE', '/v2/jobs/nothing')).toMatchObject({ status: 404 });
  });
});

describe('the list', () => {
  const idsOf = ({ jobs: listed }: { jobs: readonly { id: string }[] }) => listed.map(({ id }) => id);

  test('is told by model, state and tag, in pages', async () => {
    const of = `${model}b`;
    const waiting = await submit({ 'Nereid-Tag': 'blue, round', 'Nereid-Priority': '1' });
    const red = await submit({ 'Nereid-Tag': 'red', 'Nereid-Priority': '2' });
    const late = await submit({ 'Nereid-Delay-Ms': '60000', 'Nereid-Tag': 'blue' });
    const dropped = await submit({ 'Nereid-Priority': '3' });
    const elsewhere = await submit({ 'Nereid-Tag': 'blue' }, body(), jobs, of);
    await call('DELETE', `/v2/jobs/${dropped.id}`);
    expect(waiting.tags).toEqual(['blue', 'round']);

    const all = await call('GET', `/v2/jobs?model=${model}`, other);
    expect(idsOf(all)).toEqual([late, waiting, red, dropped].map(({ id }) => id));
    expect(all.jobs[3]).toMatchObject({ state: 'cancelled', model_name: model });
    expect(idsOf(await call('GET', `/v2/jobs?model=${model}&state=waiting`))).toEqual([waiting.id, red.id]);
    expect(idsOf(await call('GET', `/v2/jobs?model=${model}&state=cancelled`))).toEqual([dropped.id]);
    expect(idsOf(await call('GET', '/v2/jobs?tag=blue&state=delayed'))).toContain(late.id);
    expect(idsOf(await call('GET', `/v2/jobs?tag=blue&model=${of}`))).toEqual([elsewhere.id]);

    const paged: string[] = [];
    let next: string | undefined = '';
    while (next !== undefined) {
      const after: string = next === '' ? '' : `&after=${next}`;
      const page: { jobs: { id: string }[]; next?: string } = await call(
        'GET',
        `/v2/jobs?model=${model}&limit=1${after}`,
      );
      expect(page.jobs.length).toBeLessThanOrEqual(1);
      paged.push(...idsOf(page));
      next = page.next;
    }
    expect(paged).toEqual(idsOf(all));
  });

  test('has the jobs whose results have expired', async () => {
    jobs.echo(model);
    const { id, result_url } = await submit({ 'Nereid-Result-Ttl-S': '1' });
    await call('GET', `${result_url}?wait=20s`);
    const expired = () => call('GET', `/v2/jobs?model=${model}&state=expired`).then(idsOf);
    await expect.poll(expired, { timeout: 5_000 }).toEqual([id]);
    expect(idsOf(await call('GET', `/v2/jobs?model=${model}&state=completed`))).toEqual([]);
  });

  test.each([
    ['state=done', 'state', /state must be one of waiting, delayed/],
    ['limit=0', 'limit', /limit must be a whole number from 1 to 1000/],
    ['after=x', 'after', /after must be the 'next' of an earlier answer/],
    [`after=${Buffer.from('["m","completed","(1",0]').toString('base64url')}`, 'after', /after must be/],
    [`after=${Buffer.from('["m","completed","1 ",0]').toString('base64url')}`, 'after', /after must be/],
    ['tag=a&tag=b', 'tag', /more than once/],
  ])('refuses %s', async (query, field, text) => {
    expect(await call('GET', `/v2/jobs?${query}`)).toMatchObject({
      status: 400,
      field,
      error: expect.stringMatching(text),
    });
  });

  test('tells jobs whose producer has written what is no time, among others', async () => {
    const queue = jobs.queues.openBullQueue(model, 'infer');
    const add = (timestamp: unknown, data: object = {}) =>
      queue.add('x', data, { timestamp: timestamp as number, attempts: 'many' as unknown as number });
    await add('today');
    await add(9e15);
    await add(1, { result_ttl_s: 1e30 });
    jobs.take(model, ({ id }, taker) => void taker.fail(id, 'INVALID_ARG: no', false));
    await expect.poll(async () => (await call('GET', `/v2/jobs?model=${model}&state=failed`)).jobs?.length).toBe(3);
    for (const id of [1, 2, 3]) {
      const told = await call('GET', `/v2/jobs/${model}~${id}`);
      expect(told).toMatchObject({ status: 200, created_at: expect.stringMatching(/^1970/), attempts_max: 1 });
    }
    await queue.close();
  });
});

test('lists at a time are bounded', async () => {
  const answers = await Promise.all(Array.from({ length: 40 }, () => call('GET', '/v2/jobs')));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.length).toBeGreaterThan(0);
  for (const answer of refused) expect(answer).toMatchObject({ status: 503, code: 'UNAVAILABLE' });
  expect((await call('GET', '/v2/jobs')).status).toBe(200);
});

describe('an Idempotency-Key', () => {
  const key = { 'Idempotency-Key': 'k1' };

  test('twice is one job, at whichever gateway and at once (BC-137)', async () => {
    let runs = 0;
    const answers = await Promise.all([submit(key), submit(key, body(), other), submit(key, body(), other)]);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 202]);
    jobs.take(model, ({ id }, taker) => {
      runs++;
      void taker.complete(id, { model_name: model, model_version: '1', outputs: [] });
    });
    const results = await Promise.all(answers.map(({ result_url }) => call('GET', `${result_url}?wait=20s`)));
    expect(results.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(runs).toBe(1);
    // The stored one for equal data, also when it is over (BC-131).
    expect(await submit(key)).toMatchObject({ status: 200, id: answers[0]?.id, state: 'completed' });
  });

  test('for another body or other wishes is refused (BC-131)', async () => {
    await submit(key);
    const refused = { status: 409, code: 'ALREADY_EXISTS', field: 'Idempotency-Key' };
    expect(await submit(key, body(2))).toMatchObject(refused);
    expect(await submit({ ...key, 'Nereid-Priority': '5' }, body(), other)).toMatchObject(refused);
    expect(await submit(key, body(2), jobs, `${model}b`)).toMatchObject({ status: 202 });
    expect(await submit({ 'Idempotency-Key': 'k2' }, body(2))).toMatchObject({ status: 202 });
  });

  test('whose gateway died between key and add is added by who comes again', async () => {
    const claimed: string[] = [];
    const { keys } = jobs.queues;
    const claim: typeof keys.claim = async (...claims) => {
      const held = await keys.claim(...claims);
      claimed.push(held.id);
      throw new Error('killed');
    };
    const dying = await jobsFixture(server.url, [model], (queues) => ({ ...queues, keys: { ...keys, claim } }));
    expect(await submit(key, body(), dying)).toMatchObject({ status: 500 });
    await dying.close();
    expect(await jobs.queues.counts(model)).toMatchObject({ waiting: 0 });
    expect(await submit(key, body(), other)).toMatchObject({
      status: 200,
      id: `${model}~${claimed[0]}`,
      state: 'waiting',
    });
    expect(await submit(key)).toMatchObject({ status: 200, id: `${model}~${claimed[0]}` });
  });

  test('does not run a job again that was removed', async () => {
    jobs.echo(model);
    const { id, result_url } = await submit(key);
    await call('GET', `${result_url}?wait=20s`);
    await call('DELETE', `/v2/jobs/${id}`);
    expect(await submit(key)).toMatchObject({ status: 410, code: 'NOT_FOUND', field: 'Idempotency-Key' });
  });

  test('of a request that is wrong is free for the right one', async () => {
    expect(await submit(key, { inputs: [] })).toMatchObject({ status: 400 });
    expect(await submit(key)).toMatchObject({ status: 202 });
  });
});

describe('infer with Prefer', () => {
  const infer = (prefer: string, headers: Record<string, string> = {}, payload: object = body()) =>
    jobs.http.inject({ method: 'POST', url: `/v2/models/${model}/infer`, payload, headers: { prefer, ...headers } });

  test('respond-async is a job', async () => {
    const answer = await infer('respond-async');
    expect(answer.statusCode).toBe(202);
    const { id, state } = answer.json();
    expect(state).toBe('waiting');
    expect(answer.headers).toMatchObject({ location: `/v2/jobs/${id}`, 'preference-applied': 'respond-async' });
    jobs.echo(model);
    expect((await call('GET', `/v2/jobs/${id}/result?wait=20s`)).outputs[0].data).toEqual([1]);
  });

  test.each(['respond-async, wait=20', 'wait=20', 'handling=lenient, Wait="20"; x=1, RESPOND-ASYNC'])(
    '%s is infer’s answer, if that comes in time',
    async (prefer) => {
      jobs.echo(model);
      const answer = await infer(prefer, { 'Nereid-Tag': 'x' });
      expect(answer.statusCode).toBe(200);
      expect(answer.json().outputs[0].data).toEqual([1]);
      expect(answer.headers['preference-applied']).toContain('wait=20');
    },
  );

  test('has the binary answer that it asks for', async () => {
    jobs.echo(model);
    const asked = { ...body(), outputs: [{ name: 'OUTPUT', parameters: { binary_data: true } }] };
    const answer = await infer('wait=20', {}, asked);
    const length = Number(answer.headers['inference-header-content-length']);
    expect(answer.rawPayload.subarray(length)).toEqual(Buffer.from(Float32Array.of(1).buffer));
  });

  test('wait=0 answers with the job', async () => {
    expect((await infer('wait=0')).statusCode).toBe(202);
  });

  test('answers with the job as it is once the time is up', async () => {
    const taken: string[] = [];
    jobs.take(model, ({ id }) => taken.push(id));
    const answer = await infer('wait=1');
    expect({ status: answer.statusCode, ...answer.json() }).toMatchObject({ status: 202, state: 'running' });
    expect(answer.headers.location).toBe(`/v2/jobs/${answer.json().id}`);
  });

  test('tells errors as infer does', async () => {
    const wrong = await infer('respond-async', { 'Nereid-Priority': 'x' });
    expect({ status: wrong.statusCode, ...wrong.json() }).toEqual({
      status: 400,
      error: 'Nereid-Priority must be an integer from 0 to 1000, got: x',
    });
    jobs.take(model, ({ id }, taker) => void taker.fail(id, 'INTERNAL: broken', false));
    const failed = await infer('wait=20');
    expect({ status: failed.statusCode, ...failed.json() }).toEqual({ status: 500, error: 'broken' });
    const large = await infer('respond-async', {}, { x: 'x'.repeat(1_000_001) });
    expect(large.statusCode).toBe(400);
  });
});
