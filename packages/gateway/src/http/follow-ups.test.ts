import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type JobsFixture, jobsFixture } from './jobs-fixture.ts';

const MODEL = 'm';
let server: RedisServerFixture;
let jobs: JobsFixture;

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
beforeEach(async () => {
  jobs = await jobsFixture(server.url, [MODEL]);
});
afterEach(() => jobs.close());

async function call(method: 'GET' | 'POST', url: string, payload?: object) {
  const answer = await jobs.http.inject({
    method,
    url,
    headers: { host: 'localhost' },
    ...(payload === undefined ? {} : { payload }),
  });
  return { status: answer.statusCode, ...answer.json() };
}

const input = (datatype = 'FP32') => ({ inputs: [{ name: 'INPUT', datatype, shape: [1], data: [1] }] });
const submit = async () => (await call('POST', `/v2/models/${MODEL}/jobs`, input())).id as string;

describe('a dead letter', () => {
  test.each([
    ['of a version that is not there', { ...input(), model_version: '99' }, 404, 'NOT_FOUND'],
    ['of another datatype', input('INT32'), 400, 'INVALID_ARG'],
    ['that are cancelled', { ...input(), cancelled: true }, 400, 'INVALID_ARG'],
    ['that are no request', 5, 400, 'INVALID_ARG'],
  ])('is not replayed with data %s, and stays', async (_, data, status, code) => {
    jobs.take(MODEL, ({ id }, taker) => void taker.fail(id, 'INTERNAL: x', false));
    const id = await submit();
    await call('GET', `/v2/jobs/${id}?wait=20s`);
    expect(await call('POST', `/nereid/v1/deadletters/${id}/replay`, { data })).toMatchObject({ status, code });
    expect(await call('GET', `/nereid/v1/deadletters/${id}`)).toMatchObject({ status: 200, id });
    expect(await call('GET', `/v2/jobs/${id}`)).toMatchObject({ state: 'failed' });
  });

  test('is not replayed where its tensors are gone, and stays', async () => {
    jobs.take(MODEL, ({ id }, taker) => void taker.fail(id, 'INTERNAL: x', false));
    const blob = { ref: 'blob-gone', byte_size: 4 };
    const data = { inputs: [{ name: 'INPUT', datatype: 'FP32', shape: [1], blob }] };
    const how = { priority: 0, delayMs: 0, attempts: 1, resultTtlS: 60 };
    await jobs.queues.add(MODEL, { id: 'A1', createdMs: Date.now(), data, ...how });
    const id = `${MODEL}~A1`;
    await call('GET', `/v2/jobs/${id}?wait=20s`);
    expect(await call('POST', `/nereid/v1/deadletters/${id}/replay`)).toMatchObject({
      status: 410,
      error: `the inputs of dead letter '${id}' are not kept any more; replay it with 'data' that has inputs`,
    });
    expect(await call('GET', `/nereid/v1/deadletters/${id}`)).toMatchObject({ status: 200, id });
    expect(await call('POST', `/nereid/v1/deadletters/${id}/replay`, { data: input() })).toMatchObject({ status: 202 });
  });

  test.each([
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['after=x', 'after'],
    ['after=a&after=b', 'after'],
    ['model=%zz', 'model'],
  ])('a list of them refuses %s', async (query, field) => {
    expect(await call('GET', `/nereid/v1/deadletters?${query}`)).toMatchObject({ status: 400, field });
  });
});

test('a webhook that is none is told by the id of its job', async () => {
  const id = await submit();
  expect(await call('POST', `/v2/jobs/${id}/webhook`)).toMatchObject({
    status: 400,
    error: `job '${id}' has no webhook`,
  });
});
