import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { createClient, createProducer, NereidError, texts } from '@nereid/client';
import { Queue, QueueEvents } from 'bullmq';
import { Queue as Queue5, QueueEvents as QueueEvents5 } from 'bullmq5';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commandFile, MODEL_REPOSITORY, ROOT } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

/** Decoupled: answers VALUE times, counting from 0. 99 breaks off at once, and -1 never ends. */
const COUNTS = `export const execute = (requests) => requests.map(async function* ({ inputs, signal }) {
  const [until] = inputs.get('VALUE').data;
  for (let n = 0; (n < until || until === -1) && !signal.aborted; n++) {
    if (until === 99) throw new Error('not this');
    yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(n) } } };
    await new Promise((resolve) => setTimeout(resolve));
  }
});`;

/** Adds up the values of its sequence; 7 is an error, which leaves the sum as it was. */
const SUMS = `export const execute = (requests) => requests.map(({ inputs, state }) => {
  const [value] = inputs.get('VALUE').data;
  if (value === 7) return new Error('not this');
  const sum = { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(state.get('BEFORE').data[0] + value) };
  return { outputs: { VALUE: sum }, state: { AFTER: sum } };
});`;
const SEQUENCES = `sequence_batching {
  max_sequence_idle_microseconds: 60000000
  oldest { max_candidate_sequences: 4 }
  state [ {
    input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 1 ]
    initial_state: { name: "zero", data_type: TYPE_INT32, dims: [ 1 ], zero_data: true }
  } ]
}`;

const longs = (...data: bigint[]) => ({ INPUT0: { datatype: 'INT64', shape: [data.length], data } }) as const;
const value = (of: number, ...rows: 1[]) =>
  ({ VALUE: { datatype: 'INT32', shape: [...rows, 1], data: [of] } }) as const;

/** Of both versions' classes. */
type Queued = [name: string, options: { connection: { path: string } | { url: string }; prefix: string }];

let folder: ModelFolder;
beforeAll(() => {
  folder = createModelFolder();
  folder.addEcho('texts', 'BYTES', [-1]);
  folder.addEcho('longs', 'INT64', [-1]);
  folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
  cpSync(join(MODEL_REPOSITORY, 'redact'), join(folder.path, 'redact'), { recursive: true });
  folder.addJavaScript('sums', SUMS, SEQUENCES, { maxBatchSize: 4 });
});
afterAll(() => folder.remove());

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

describe.each(MODES)('in mode %s', (mode) => {
  let deployment: Deployment;
  let client: ReturnType<typeof createClient>;
  beforeAll(async () => {
    deployment = await deploy(mode, [folder.path]);
    client = createClient({ url: deployment.http });
  });
  afterAll(async () => {
    await deployment?.stop();
  });

  test('infer gives tensors as they were, and the error of the server', async () => {
    const { outputs, ...rest } = await client.infer({
      model: 'texts',
      id: 'mine',
      inputs: { INPUT0: { datatype: 'BYTES', shape: [2], data: ['é', Uint8Array.of(0x61)] } },
    });
    expect([rest, texts(outputs.OUTPUT0)]).toEqual([
      { model: 'texts', version: '1', id: 'mine', parameters: {} },
      ['é', 'a'],
    ]);
    const wrong = client.infer({ model: 'longs', inputs: { NONE: { datatype: 'INT64', shape: [1], data: [1] } } });
    await expect(wrong).rejects.toMatchObject({
      code: 'INVALID_ARG',
      status: 400,
      requestId: expect.stringMatching(/./),
    });
    await expect(wrong).rejects.toBeInstanceOf(NereidError);
  });

  test('what a server knows of its models', async () => {
    expect([await client.isReady(), await client.isReady('longs'), await client.isReady('none')]).toEqual([
      true,
      true,
      false,
    ]);
    expect(await createClient({ url: 'http://127.0.0.1:1' }).isReady()).toBe(false);
    expect((await client.metadata('longs')).inputs).toEqual([{ name: 'INPUT0', datatype: 'INT64', shape: [-1] }]);
  });

  test('generate and stream', async () => {
    const input = { model: 'longs', inputs: { INPUT0: [2n ** 63n - 1n, 5] } };
    expect(await client.generate(input)).toMatchObject({ OUTPUT0: [2n ** 63n - 1n, 5] });
    const values = [];
    for await (const { VALUE } of client.stream({ model: 'counts', inputs: { VALUE: 3 } })) values.push(VALUE);
    expect(values).toEqual([0, 1, 2]);
    await expect(client.stream({ model: 'counts', inputs: { VALUE: 99 } }).next()).rejects.toThrow('not this');
    await expect(client.stream({ model: 'none', inputs: {} }).next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a stream that is left ends at its model', async () => {
    for await (const { VALUE } of client.stream({ model: 'counts', inputs: { VALUE: -1 } })) if (VALUE === 2) break;
    const caller = new AbortController();
    const stream = client.stream({ model: 'counts', inputs: { VALUE: -1 } }, { signal: caller.signal });
    await stream.next();
    caller.abort(new Error('left'));
    await expect(async () => {
      for await (const _ of stream);
    }).rejects.toThrow('left');
    // One instance: had one of the two gone on, this would never be answered.
    expect((await client.stream({ model: 'counts', inputs: { VALUE: 1 } }).next()).value).toMatchObject({ VALUE: 0 });
  });

  test('a sequence, whose failed steps leave it as it was', async () => {
    const sequence = client.sequence({ model: 'sums' });
    const first = sequence.step({ inputs: { VALUE: { datatype: 'INT32', shape: [2, 1], data: [1, 1] } } });
    await expect(first).rejects.toMatchObject({ code: 'INVALID_ARG', field: 'inputs[0].shape' });
    const sum = async (step: Promise<{ outputs: Record<string, { data: ArrayLike<unknown> }> }>) =>
      (await step).outputs.VALUE?.data[0];
    const [three, bad, eight] = [3, 7, 5].map((of) => sum(sequence.step({ inputs: value(of, 1) })));
    await expect(bad).rejects.toThrow('not this');
    expect([await three, await eight, await sum(sequence.end({ inputs: value(1, 1) }))]).toEqual([3, 8, 9]);
  });

  test('a job, and one that is wrong', async () => {
    const job = await client.jobs.submit({ model: 'longs', id: 'mine', inputs: longs(2n ** 62n) }, { attempts: 2 });
    expect(job).toMatchObject({ model_name: 'longs', attempts_max: 2, request_id: 'mine' });
    expect((await client.jobs.result(job.id)).outputs.OUTPUT0?.data).toEqual(BigInt64Array.of(2n ** 62n));
    expect(await client.jobs.wait(job.id)).toMatchObject({ state: 'completed', attempts_made: 1 });
    await expect(client.jobs.submit({ model: 'longs', inputs: {} })).rejects.toMatchObject({ code: 'INVALID_ARG' });
    await expect(client.jobs.result('longs~none')).rejects.toMatchObject({ code: 'NOT_FOUND', status: 404 });
    const failing = await client.jobs.submit({
      model: 'sums',
      inputs: value(7, 1),
      sequence: { id: 'j', start: true, end: true },
    });
    await expect(client.jobs.result(failing.id)).rejects.toMatchObject({ code: 'INTERNAL', message: 'not this' });
  });

  test('jobs that are cancelled, found, run anew and removed', async () => {
    const { jobs } = client;
    const later = { delayMs: 600_000, tags: ['later', mode] };
    const input = { model: 'longs', inputs: longs(4n) };
    const job = await jobs.submit(input, { ...later, idempotencyKey: 'k' });
    expect([job.state, await jobs.submit(input, { ...later, idempotencyKey: 'k' })]).toMatchObject([
      'delayed',
      { id: job.id },
    ]);
    await expect(jobs.submit({ ...input, inputs: longs(5n) }, { idempotencyKey: 'k' })).rejects.toMatchObject({
      code: 'ALREADY_EXISTS',
      status: 409,
    });
    await expect(jobs.remove(job.id)).rejects.toMatchObject({ code: 'INVALID_ARG', status: 409 });

    await jobs.cancel(job.id);
    expect(await jobs.wait(job.id)).toMatchObject({ state: 'cancelled', error: { code: 'CANCELLED' } });
    expect(await jobs.cancel(job.id)).toMatchObject({ state: 'cancelled' });
    await expect(jobs.result(job.id)).rejects.toMatchObject({ code: 'CANCELLED' });
    const found: string[] = [];
    for await (const { id } of jobs.list({ model: 'longs', tag: mode, limit: 1 })) found.push(id);
    expect(found).toEqual([job.id]);

    await jobs.retry(job.id);
    expect((await jobs.result(job.id)).outputs.OUTPUT0?.data).toEqual(BigInt64Array.of(4n));
    expect(await jobs.wait(job.id)).toMatchObject({ state: 'completed' });
    await jobs.remove(job.id);
    await jobs.remove(job.id);
    await expect(jobs.get(job.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a job of a decoupled model is watched, from its beginning and from where a reader left', async () => {
    const { jobs } = client;
    const { id } = await jobs.submit({ model: 'counts', inputs: value(2) });
    const seen: { id: string; type: string; output: unknown }[] = [];
    for await (const { id: at, type, outputs } of jobs.watch(id))
      seen.push({ id: at, type, output: outputs?.VALUE?.data[0] });
    expect(seen.filter(({ type }) => type === 'output').map(({ output }) => output)).toEqual([0, 1]);
    expect(seen.at(-1)?.type).toBe('end');
    const first = seen.findIndex(({ output }) => output === 0);
    const again: unknown[] = [];
    for await (const { type } of jobs.watch(id, { lastEventId: seen[first]?.id ?? '' })) again.push(type);
    expect(again).toEqual(seen.slice(first + 1).map(({ type }) => type));
    expect(await jobs.wait(id)).toMatchObject({ state: 'completed', progress: { n: 2 } });
    await expect(jobs.watch('counts~none').next()).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(jobs.resendWebhook(id)).rejects.toMatchObject({
      code: expect.stringMatching(/NOT_FOUND|INVALID_ARG/),
    });
  });

  test('a batch: sent as requests, as a stream and as a blob, and read line by line', async () => {
    const { batches } = client;
    const requests = Array.from({ length: 300 }, (_, n) => ({
      customId: `n${n}`,
      inputs: longs(2n ** 62n + BigInt(n)),
    }));
    async function* slowly() {
      yield* requests.map((request, n) => (n === 2 ? { ...request, inputs: value(1, 1) } : request));
    }
    const wishes = { attempts: 2, deadlineMs: 600_000, resultTtlS: 60 };
    const sent = await batches.submit('longs', slowly(), wishes);
    expect(sent).toMatchObject({ model_name: 'longs', attempts_max: 2, request_counts: { total: 300 } });
    expect(await batches.wait(sent.id)).toMatchObject({ state: 'completed', request_counts: { failed: 1 } });
    const read = [];
    for await (const result of batches.results(sent.id)) read.push(result);
    expect(read.map(({ line, customId }) => [line, customId])).toEqual(requests.map((_, n) => [n, `n${n}`]));
    expect(read[299]?.answers[0]?.outputs.OUTPUT0?.data).toEqual(BigInt64Array.of(2n ** 62n + 299n));
    const [failed] = await all(batches.results(sent.id, { status: 'failed' }));
    expect(failed).toMatchObject({ line: 2, answers: [], error: { code: 'INVALID_ARG', status: 400 } });

    const text = JSON.stringify({ body: { inputs: [{ name: 'INPUT0', datatype: 'INT64', shape: [1], data: [5] }] } });
    const blob = await client.blobs.put(Buffer.from(text));
    const answers = await Promise.all(
      [{ blob }, text, new Blob([text]).stream()].map(async (file) => {
        const { id } = await batches.submit('longs', file, { version: '1' });
        await batches.wait(id);
        const [{ answers: [answer] = [] } = {}] = await all(batches.results(id));
        return answer?.outputs.OUTPUT0?.data;
      }),
    );
    expect(answers).toEqual(Array(3).fill(BigInt64Array.of(5n)));
    const streamed = await batches.submit('counts', [{ inputs: value(2) }]);
    await batches.wait(streamed.id);
    const [counted] = await all(batches.results(streamed.id));
    expect(counted?.answers.map(({ outputs }) => outputs.VALUE?.data[0])).toEqual([0, 1]);

    const listed = await all(batches.list('longs'));
    expect(listed.map(({ id }) => id)).toContain(sent.id);
    expect((await batches.page('longs', undefined, { limit: 1 })).next).toBe(listed[0]?.id);
    expect(await batches.cancel(sent.id)).toMatchObject({ state: 'completed' });
    await batches.remove(sent.id);
    await batches.remove(sent.id);
    await expect(batches.get(sent.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(batches.submit('longs', '')).rejects.toMatchObject({ code: 'INVALID_ARG', status: 400 });
    const endless = await batches.submit('counts', [{ inputs: value(-1) }]);
    await expect(batches.remove(endless.id)).rejects.toMatchObject({ status: 409 });
    expect(await batches.cancel(endless.id)).toMatchObject({ state: 'cancelled' });
  });

  test('a dead letter is found, read, replayed with another input, and forgotten', async () => {
    const { jobs, deadLetters } = client;
    const failing = () => jobs.submit({ model: 'counts', inputs: value(99) }, { attempts: 1 });
    const [mended, dropped] = await Promise.all([failing(), failing()]);
    for (const { id } of [mended, dropped]) await expect(jobs.result(id)).rejects.toThrow('not this');
    const letters = await all(deadLetters.list({ model: 'counts', limit: 1 }));
    expect(letters.map(({ id }) => id).sort()).toEqual([mended.id, dropped.id].sort());
    expect(letters[0]).toMatchObject({ model_name: 'counts', attempts_made: 1, error: { message: 'not this' } });
    const letter = await deadLetters.get(mended.id);
    expect(letter.data).toMatchObject({ inputs: [{ name: 'VALUE' }] });
    expect(letter.history).toHaveLength(1);
    expect(await deadLetters.replay(mended.id, { input: { inputs: value(2) } })).toMatchObject({ id: mended.id });
    expect((await jobs.result(mended.id)).outputs.VALUE?.data[0]).toBe(1);
    await deadLetters.remove(dropped.id);
    await expect(deadLetters.get(dropped.id)).rejects.toMatchObject({ code: 'NOT_FOUND', status: 404 });
    await expect(deadLetters.replay(mended.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a sequence that asked for it is recorded, run again, and taken along as a file', async () => {
    const { journal } = client;
    const sequence = client.sequence({ model: 'sums', journal: true });
    for (const of of [3, 7]) await sequence.step({ inputs: value(of, 1) }).catch(() => {});
    await sequence.end({ inputs: value(5, 1) });
    const [recording] = await all(journal.list({ model: 'sums', state: 'ended', sequenceId: sequence.id }));
    if (recording === undefined) throw new Error('it is not recorded');
    expect(recording).toMatchObject({ steps: 3, sequence_id: sequence.id });
    const steps = await all(journal.steps(recording.id, { from: 1, data: true }));
    expect(steps.map(({ answers: [answer] }) => answer?.error?.message ?? answer?.outputs[0]?.tensor?.data)).toEqual([
      'not this',
      Int32Array.of(8),
    ]);

    const run = journal.replay(recording.id, { replace: { step: 2, inputs: value(6, 1) }, record: true });
    let next = await run.next();
    const equal: boolean[] = [];
    for (; next.done !== true; next = await run.next()) equal.push(next.value.equal);
    expect(equal).toEqual([true, true, false]);
    expect(next.value).toMatchObject({ result: 'differs', first_difference: { step: 2, recorded: 8, replayed: 9 } });

    const imported = await journal.import(await journal.export(recording.id, { gzip: true }));
    expect(imported).toMatchObject({ steps: 3, imported: true });
    expect(await journal.diff(recording.id, imported.id)).toEqual({ result: 'equal', compared: 3 });
    expect(await journal.diff(imported.id, next.value.recording ?? '')).toMatchObject({ result: 'differs' });
    const argv = ['replay', 'run', `--url=${deployment.http}`, imported.id];
    const { output } = await runCommand(process.execPath, [commandFile(), ...argv]);
    expect(output.trim()).toBe('equal: 3 steps compared');
    await journal.remove(imported.id);
    await expect(journal.replay(imported.id).next()).rejects.toMatchObject({ code: 'NOT_FOUND', status: 404 });
  });

  test('the example that follows a job prints what its page says', async () => {
    const { output } = await runCommand(process.execPath, [join(ROOT, 'examples/client-jobs.mjs'), deployment.http]);
    expect(output.trim().split('\n')).toEqual(['state waiting', 'state running', 'end completed', 'write to [email]']);
    const { output: batch } = await runCommand(process.execPath, [
      join(ROOT, 'examples/client-batch.mjs'),
      deployment.http,
    ]);
    expect(batch.trim().split('\n')).toEqual(['completed 2 of 2', 'line 1 write to [email]', 'line 2 no address here']);
  });

  test.each([
    ['6', (...to: Queued) => ({ queue: new Queue(...to), events: new QueueEvents(...to) })],
    ['5', (...to: Queued) => ({ queue: new Queue5(...to), events: new QueueEvents5(...to) })],
  ])('a producer with BullMQ %s, of jobs and of sequences', async (_version, open) => {
    const producers = await Promise.all(
      ['longs', 'sums'].map(async (model) => {
        const { name, prefix, redis_url: url } = await client.jobs.queue(model);
        const connection = url.startsWith('unix://') ? { path: decodeURIComponent(url.slice(7)) } : { url };
        const { queue, events } = open(name, { connection, prefix });
        return { queue, events, producer: createProducer({ queue, events, blobs: client.blobs }) };
      }),
    );
    const [plain, stepped] = producers.map(({ producer }) => producer);
    if (plain === undefined || stepped === undefined) throw new Error('no producers');

    const jobs = await Promise.all(
      Array.from({ length: 20 }, (_, index) => plain.add({ inputs: longs(BigInt(index)) })),
    );
    const results = await Promise.all(jobs.map((job) => job.result()));
    expect(results.map(({ outputs }) => outputs.OUTPUT0?.data[0])).toEqual(
      Array.from(jobs, (_, index) => BigInt(index)),
    );
    const wrong = await plain.add({ inputs: value(1, 1) });
    await expect(wrong.result()).rejects.toMatchObject({ code: 'INVALID_ARG' });

    // Beyond 256 KiB a result is a blob too.
    const many = Array.from({ length: 40_000 }, (_, index) => BigInt(index));
    const large = await plain.add({ inputs: longs(...many) });
    expect(await client.jobs.get(`longs~${large.id}`)).toMatchObject({ model_name: 'longs' });
    expect((await large.result()).outputs.OUTPUT0?.data).toEqual(BigInt64Array.from(many));

    const sequence = stepped.sequence();
    const steps = await Promise.all([
      sequence.add({ inputs: value(3, 1) }),
      sequence.add({ inputs: value(4, 1) }),
      sequence.end({ inputs: value(5, 1) }),
    ]);
    const sums = await Promise.all(steps.map((job) => job.result()));
    expect(sums.map(({ outputs }) => outputs.VALUE?.data[0])).toEqual([3, 7, 12]);

    for (const { queue, events, producer } of producers) {
      producer.close();
      await Promise.all([queue.close(), events.close()]);
    }
  });
});
