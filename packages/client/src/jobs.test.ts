import { describe, expect, test } from 'vitest';
import { createClient } from './client.ts';
import type { NereidError } from './error.ts';

type Answer = Response | (() => Response);

/** A client of a server that answers in turn. */
function clientOf(...answers: Answer[]) {
  const sent: { method: string; path: string; headers: Record<string, string>; body: unknown }[] = [];
  const client = createClient({
    url: 'http://host',
    retry: { delayMs: 0 },
    fetch: async (url, { method = '', headers, body }) => {
      sent.push({ method, path: url.slice('http://host'.length), headers: headers as Record<string, string>, body });
      const answer = answers.shift();
      if (answer === undefined) throw new Error('no more answers');
      return typeof answer === 'function' ? answer() : answer;
    },
  });
  return { jobs: client.jobs, client, sent, calls: () => sent.map(({ method, path }) => `${method} ${path}`) };
}

const json = (value: unknown, status = 200) => new Response(JSON.stringify(value), { status });
const job = (state: string) => ({ id: 'm~1', state });
const result = () =>
  json({ model_name: 'm', model_version: '1', outputs: [{ name: 'O', datatype: 'INT32', shape: [1], data: [7] }] });
const unavailable = () => json({ error: 'not now', code: 'UNAVAILABLE' }, 503);
const broken = () => {
  throw new TypeError('fetch failed');
};
const events = (...parts: readonly [id: string, type: string, data: unknown][]) =>
  new Response(
    parts.map(([id, type, data]) => `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`).join(''),
  );

test('a submission that is repeated is one job', async () => {
  const { jobs, sent } = clientOf(broken, unavailable(), json(job('waiting')), json(job('waiting')));
  const input = { model: 'm', inputs: {} };
  await jobs.submit(input);
  await jobs.submit(input);
  const keys = sent.map(({ headers }) => headers['Idempotency-Key']);
  expect(keys.slice(0, 2)).toEqual([keys[2], keys[2]]);
  expect(keys[3]).not.toBe(keys[2]);
});

test('ids are sent as they are, escapes and all', async () => {
  const { jobs, client, calls } = clientOf(json(job('failed')), new Response('x'));
  await jobs.get('a%20b~x');
  await client.blobs.get('a%20b~x.o0.Y-_');
  expect(calls()).toEqual(['GET /v2/jobs/a%20b~x', 'GET /v2/blobs/a%20b~x.o0.Y-_']);
});

test('a submission carries its wishes', async () => {
  const { jobs, sent } = clientOf(json(job('waiting'), 202));
  const inputs = { I: { datatype: 'INT32', shape: [1], data: [1] } } as const;
  const wishes = {
    priority: 1,
    delayMs: 2,
    deadlineMs: 3,
    attempts: 4,
    resultTtlS: 5,
    webhook: 'http://w',
    tags: ['a', '日'],
  };
  expect(await jobs.submit({ model: 'a b', version: '2', inputs }, { ...wishes, idempotencyKey: 'k' })).toEqual(
    job('waiting'),
  );
  expect(sent).toMatchObject([
    {
      method: 'POST',
      path: '/v2/models/a%20b/versions/2/jobs',
      headers: {
        'Nereid-Priority': '1',
        'Nereid-Delay-Ms': '2',
        'Nereid-Deadline-Ms': '3',
        'Nereid-Attempts': '4',
        'Nereid-Result-Ttl-S': '5',
        'Nereid-Webhook': 'http://w',
        'Nereid-Tag': Buffer.from('a, 日').toString('latin1'),
        'Idempotency-Key': 'k',
      },
    },
  ]);
});

describe('a result', () => {
  test('is asked for until it is there', async () => {
    const { jobs, calls } = clientOf(json(job('running'), 202), result());
    expect((await jobs.result('m~1')).outputs.O?.data).toEqual(Int32Array.of(7));
    expect(calls()).toEqual(Array(2).fill('GET /v2/jobs/m~1/result?wait=30000ms'));
  });

  test('of a job that failed with UNAVAILABLE is its error; a server that is away is waited for', async () => {
    const { jobs, calls } = clientOf(broken, json(job('running')), unavailable(), json(job('failed')));
    await expect(jobs.result('m~1')).rejects.toMatchObject({ message: 'not now', code: 'UNAVAILABLE' });
    const looked = ['GET /v2/jobs/m~1/result?wait=30000ms', 'GET /v2/jobs/m~1'];
    expect(calls()).toEqual([...looked, ...looked]);
  });

  test('that is not there in time', async () => {
    const { jobs } = clientOf(...Array.from({ length: 20 }, () => () => json(job('running'), 202)));
    await expect(jobs.result('m~1', { timeoutMs: 20 })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      reason: 'timeout',
    });
    await expect(jobs.wait('m~1', { timeoutMs: 1 })).rejects.toMatchObject({
      message: "job 'm~1' is not over after 1 ms",
    });
  });

  test('of a job that is not there', async () => {
    const { jobs, sent } = clientOf(json({ error: 'job is not found', code: 'NOT_FOUND', field: 'id' }, 404));
    await expect(jobs.result('m~1')).rejects.toMatchObject({ code: 'NOT_FOUND', field: 'id', status: 404 });
    expect(sent).toHaveLength(1);
  });
});

describe('a cancel', () => {
  test('ends a job, again where its answer is lost', async () => {
    const { jobs, calls } = clientOf(broken, json(job('cancelled')), json(job('cancelled')));
    expect(await jobs.cancel('m~1')).toEqual(job('cancelled'));
    expect(calls()).toEqual([...Array(2).fill('DELETE /v2/jobs/m~1?only=cancel'), 'GET /v2/jobs/m~1']);
  });

  test('leaves one that is over', async () => {
    const { jobs } = clientOf(json({ error: 'it is over', code: 'INVALID_ARG' }, 409), json(job('completed')));
    expect(await jobs.cancel('m~1')).toEqual(job('completed'));
  });
});

test('a removal is one, whether the job was still there or not', async () => {
  const { jobs, calls } = clientOf(
    new Response(null, { status: 204 }),
    json({ error: 'no', code: 'NOT_FOUND' }, 404),
    json({ error: 'it runs', code: 'INVALID_ARG' }, 409),
  );
  await jobs.remove('m~1');
  await jobs.remove('m~1');
  await expect(jobs.remove('m~1')).rejects.toMatchObject({ code: 'INVALID_ARG', status: 409 });
  expect(calls()).toEqual(Array(3).fill('DELETE /v2/jobs/m~1?only=remove'));
});

test('a list goes through all pages, empty ones too', async () => {
  const { jobs, calls } = clientOf(
    json({ jobs: [], next: 'a&b' }),
    json({ jobs: [job('failed')], next: 'c' }),
    json({ jobs: [job('failed')] }),
  );
  const found: unknown[] = [];
  for await (const one of jobs.list({ model: 'm', state: 'failed', tag: 't' })) found.push(one);
  expect(found).toHaveLength(2);
  expect(calls()[1]).toBe('GET /v2/jobs?model=m&state=failed&tag=t&after=a%26b');
});

describe('watching', () => {
  test('goes on behind the last event where a connection ends, until the end', async () => {
    const { jobs, sent } = clientOf(
      events(['1-0', 'state', { state: 'running' }], ['2-0', 'output', { n: 1 }]),
      events(['3-0', 'end', { state: 'completed' }], ['4-0', 'state', {}]),
    );
    const seen: string[] = [];
    for await (const { id, type } of jobs.watch('m~1', { lastEventId: '0-5' })) seen.push(`${id} ${type}`);
    expect(seen).toEqual(['1-0 state', '2-0 output', '3-0 end']);
    expect(sent.map(({ headers }) => headers['Last-Event-ID'])).toEqual(['0-5', '2-0']);
  });

  test('ends where connections bring nothing', async () => {
    const { jobs, sent } = clientOf(...Array.from({ length: 9 }, () => events()));
    await expect(jobs.watch('m~1').next()).rejects.toMatchObject({ code: 'UNAVAILABLE', reason: 'connection' });
    expect(sent).toHaveLength(5);
  });

  test('behind the end is nothing', async () => {
    const { jobs } = clientOf(new Response(null, { status: 204 }));
    expect(await jobs.watch('m~1', { lastEventId: '9-0' }).next()).toEqual({ done: true, value: undefined });
  });

  test('gives the tensors of an output', async () => {
    const outputs = [{ name: 'O', datatype: 'FP32', shape: [1], b64: 'AADAPw==' }];
    const { jobs } = clientOf(events(['1-0', 'output', { n: 1, outputs }]));
    const { value } = await jobs.watch('m~1').next();
    expect(value).toMatchObject({ data: { n: 1 }, outputs: { O: { shape: [1], data: Float32Array.of(1.5) } } });
  });

  test('of a job that is not there', async () => {
    const { jobs } = clientOf(json({ error: 'no', code: 'NOT_FOUND' }, 404));
    const thrown = (await jobs
      .watch('m~1')
      .next()
      .catch((error: unknown) => error)) as NereidError;
    expect(thrown.code).toBe('NOT_FOUND');
  });
});

test('a blob is put and read', async () => {
  const { client, sent } = clientOf(json({ ref: 'r/1', byte_size: 2 }), new Response(Uint8Array.of(1, 2)));
  expect(await client.blobs.put(Uint8Array.of(1, 2), { ttlS: 9 })).toEqual({ ref: 'r/1', byte_size: 2 });
  expect(await client.blobs.get('r/1')).toEqual(Uint8Array.of(1, 2));
  expect(sent).toMatchObject([
    { method: 'POST', path: '/v2/blobs', headers: { 'Nereid-Ttl-S': '9' } },
    { path: '/v2/blobs/r%2F1' },
  ]);
});
