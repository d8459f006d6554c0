/** What the client's producer writes and reads, and what it understands of steps, is what the server does. */
import { createClient, createProducer, type InferInput, type ProducerOptions, texts } from '@nereid/client';
import {
  answerExpired,
  decodeJobData,
  type ErrorInfo,
  encodeJobResult,
  type InferResponse,
  sequenceLost,
  stepGap,
} from '@nereid/protocol';
import { describe, expect, test } from 'vitest';

const LIMITS = { json_depth_max: 100, elements_max: 1e6, bytes_max: 1e7 };

/** A queue whose jobs are answered with their inputs, as an owner would. */
function echoQueue(respond?: 'blob') {
  const added: { name: string; data: unknown; options: unknown }[] = [];
  let completed = (_: object) => {};
  const queue: ProducerOptions['queue'] = {
    async add(name, data, options) {
      // As it passes through Redis.
      const stored: unknown = JSON.parse(JSON.stringify(data));
      added.push({ name, data: stored, options });
      if (respond === 'blob') return;
      const decoded = decodeJobData(stored, { modelName: 'm', limits: LIMITS });
      const { inputs, id } = decoded.request;
      const response: InferResponse = { modelName: 'm', modelVersion: '1', id, parameters: {}, outputs: inputs };
      const { jobId } = options as { jobId: string };
      completed({ jobId, returnvalue: JSON.parse(JSON.stringify(encodeJobResult(response, decoded.respond))) });
    },
    getJob: async () => undefined,
  };
  const events: ProducerOptions['events'] = {
    on: (event, listener) => {
      if (event === 'completed') completed = listener as typeof completed;
    },
    off: () => {},
    waitUntilReady: async () => {},
  };
  return { queue, events, added, completed: (event: object) => completed(event) };
}

const INPUTS: InferInput['inputs'] = {
  LONG: { datatype: 'INT64', shape: [2], data: [-(2n ** 63n), 2n ** 63n - 1n] },
  HALF: { datatype: 'FP16', shape: [1], data: Uint16Array.of(0x3c01) },
  FLOAT: { datatype: 'FP32', shape: [3], data: [Number.NaN, -Infinity, 0.1] },
  TEXT: { datatype: 'BYTES', shape: [1], data: ['é'] },
};

describe('a produced job', () => {
  test.each(['auto', 'b64', undefined] as const)('comes back as it was, responding by %s', async (respond) => {
    const { queue, events } = echoQueue();
    const job = await createProducer({ queue, events }).add(
      { id: 'r', inputs: INPUTS },
      respond === undefined ? {} : { respond },
    );
    const { outputs, ...rest } = await job.result();
    expect(rest).toEqual({ model: 'm', version: '1', id: 'r', parameters: {} });
    expect(outputs.LONG?.data).toEqual(BigInt64Array.of(-(2n ** 63n), 2n ** 63n - 1n));
    expect(outputs.HALF?.data).toEqual(Uint16Array.of(0x3c01));
    expect(outputs.FLOAT?.data).toEqual(Float32Array.of(Number.NaN, -Infinity, 0.1));
    expect(texts(outputs.TEXT)).toEqual(['é']);
  });

  test('says all that its sender asks for', async () => {
    const { queue, events, added } = echoQueue();
    const input = {
      version: '3',
      inputs: {},
      outputs: ['A'],
      priority: 2,
      journal: false,
      parameters: { big: 2n ** 60n, small: 2n, double: 0.5 },
    };
    const wishes = { deadlineMs: 5, resultTtlS: 6, tags: ['a'], webhook: 'https://w.example', traceparent: '00-x' };
    const bull = { priority: 4, delay: 1, attempts: 2, backoff: { type: 'fixed', delay: 3 } as const };
    await createProducer({ queue, events }).add(input, { ...wishes, ...bull, jobId: 'j', name: 'n' });
    expect(added).toMatchObject([{ name: 'n', options: { ...bull, jobId: 'j', removeOnComplete: { age: 3600 } } }]);
    expect(added[0]?.data).toMatchObject({ tags: ['a'], webhook: 'https://w.example', traceparent: '00-x' });
    const decoded = decodeJobData(
      { ...(added[0]?.data as object), webhook: undefined },
      { modelName: 'm', limits: LIMITS },
    );
    expect(decoded).toMatchObject({ deadlineMs: 5, resultTtlS: 6, respond: 'b64', sequenceIndex: -1 });
    expect(decoded.request).toMatchObject({
      modelVersion: '3',
      priority: 2n,
      journal: false,
      parameters: { big: 2n ** 60n, small: 2n, double: 0.5 },
    });
  });

  test('of a sequence is numbered', async () => {
    const { queue, events, added } = echoQueue();
    const sequence = createProducer({ queue, events }).sequence();
    await Promise.all([sequence.add({ inputs: {} }), sequence.add({ inputs: {} }), sequence.end({ inputs: {} })]);
    const decoded = added.map(({ data }) => decodeJobData(data, { modelName: 'm', limits: LIMITS }));
    expect(
      decoded.map(({ sequenceIndex, request }) => [sequenceIndex, request.sequenceStart, request.sequenceEnd]),
    ).toEqual([
      [0, true, false],
      [1, false, false],
      [2, false, true],
    ]);
    expect(new Set(decoded.map(({ request }) => request.correlationId))).toEqual(new Set([sequence.id]));
  });

  test('leaves large tensors in blobs, both ways', async () => {
    const { queue, events, added, completed } = echoQueue('blob');
    const stored = new Map<string, Uint8Array<ArrayBuffer>>();
    const blobs: ProducerOptions['blobs'] = {
      async put(bytes) {
        const ref = `r${stored.size}`;
        stored.set(ref, new Uint8Array(bytes));
        return { ref, byte_size: bytes.byteLength };
      },
      get: async (ref) => stored.get(ref) ?? Promise.reject(new Error('none')),
    };
    const producer = createProducer({ queue, events, blobs });
    const data = Float32Array.from({ length: 4_097 }, (_, index) => index);
    const job = await producer.add({ inputs: { I: { datatype: 'FP32', shape: [4_097], data } } });
    expect(added[0]?.data).toMatchObject({
      respond: 'auto',
      inputs: [{ name: 'I', blob: { ref: 'r0', byte_size: 16_388 } }],
    });
    const outputs = [{ name: 'O', datatype: 'FP32', shape: [4_097], blob: { ref: 'r0', byte_size: 16_388 } }];
    completed({ jobId: job.id, returnvalue: { model_name: 'm', model_version: '1', outputs } });
    expect((await job.result()).outputs.O?.data).toEqual(data);
  });
});

/** A server of one sequence that goes by R22: it refuses inputs of 0 rows at the door, and answers 7 with an error. */
function steps(options: { readonly journal?: boolean } = {}) {
  const model = 'm';
  const done: number[] = [];
  const seen: string[] = [];
  let lost = false;
  const answerOf = (value: number): ErrorInfo | undefined =>
    value === 7 ? { code: 'INTERNAL', message: 'not this' } : undefined;
  const refusal = (value: number | undefined, step: number, start: boolean, id: string): ErrorInfo | undefined => {
    if (lost) return sequenceLost(model, id);
    if (value === undefined) return { code: 'INVALID_ARG', message: 'no rows' };
    // A gateway cannot tell one that never began from one that is lost.
    if (done.length === 0 && !start) return sequenceLost(model, id);
    if (step > done.length) return stepGap(model, id, done.length);
    if (step < done.length) return answerExpired(model, id);
    done.push(value);
    return answerOf(value);
  };
  const client = createClient({
    url: 'http://host',
    retry: { attempts: 1 },
    fetch: async (_url, { body, headers }) => {
      const { 'Inference-Header-Content-Length': length } = headers as Record<string, string>;
      const bytes = body as Uint8Array;
      const { parameters } = JSON.parse(Buffer.from(bytes.subarray(0, Number(length))).toString());
      const value = bytes.byteLength > Number(length) ? bytes[Number(length)] : undefined;
      seen.push(
        `${parameters.nereid_step}${parameters.sequence_start ? ' start' : ''}${parameters.sequence_end ? ' end' : ''}${parameters.nereid_journal ? ' recorded' : ''}`,
      );
      if (value === 13) throw new TypeError('fetch failed');
      const error = refusal(value, parameters.nereid_step, parameters.sequence_start === true, parameters.sequence_id);
      if (error === undefined) return new Response('{"model_name":"m","model_version":"1","outputs":[]}');
      const reason = error.reason === undefined ? '' : `; reason=${error.reason}`;
      const told = { 'Nereid-Error': `${error.code}${reason}` };
      return new Response(JSON.stringify({ error: error.message }), {
        status: error.code === 'INTERNAL' ? 500 : 400,
        headers: told,
      });
    },
  });
  const sequence = client.sequence({ ...options, model });
  const step = (value?: number, end = false) => {
    const data = value === undefined ? [] : [value];
    const input = { inputs: { I: { datatype: 'UINT8', shape: [data.length], data } } } as const;
    return end ? sequence.end(input) : sequence.step(input);
  };
  return { step, done, seen, lose: () => (lost = true) };
}

describe('a sequence', () => {
  test('sends its steps in order, each behind the answer of the one before', async () => {
    const { step, done, seen } = steps();
    await Promise.all([step(1), step(2), step(3, true)]);
    expect([done, seen]).toEqual([
      [1, 2, 3],
      ['0 start', '1', '2 end'],
    ]);
    await expect(step(4)).rejects.toMatchObject({ reason: 'sequence_closed' });
  });

  test('asks with its first step to be recorded', async () => {
    const { step, seen } = steps({ journal: true });
    await Promise.all([step(1), step(2, true)]);
    expect(seen).toEqual(['0 start recorded', '1 end']);
  });

  test.each([
    ['the first', 0],
    ['a later one', 2],
  ])('goes on behind a step that was refused at the door: %s', async (_which, before) => {
    const { step, done, seen } = steps();
    for (let value = 1; value <= before; value++) await step(value);
    await expect(step()).rejects.toThrow('no rows');
    await step(5);
    await step(6);
    expect(done).toEqual([...[1, 2].slice(0, before), 5, 6]);
    // The next number was tried first: that of the refused one could have been done.
    expect(seen.slice(before).map((text) => Number.parseInt(text, 10))).toEqual([
      before,
      before + 1,
      before,
      before + 1,
    ]);
  });

  test('goes on behind an error of its model, which took effect', async () => {
    const { step, done, seen } = steps();
    await step(1);
    await expect(step(7)).rejects.toThrow('not this');
    await step(3);
    expect([done, seen]).toEqual([
      [1, 7, 3],
      ['0 start', '1', '2'],
    ]);
  });

  test('is over behind a step whose outcome nobody knows', async () => {
    const { step, seen } = steps();
    await step(1);
    const [lost, next] = await Promise.allSettled([step(13), step(3)]);
    expect(lost).toMatchObject({ reason: { reason: 'connection' } });
    expect(next).toMatchObject({ reason: { reason: 'sequence_closed' } });
    expect(seen).toEqual(['0 start', '1']);
  });

  test('is over where its server has lost it', async () => {
    const { step, lose } = steps();
    await step(1);
    lose();
    await expect(step(2)).rejects.toMatchObject({ reason: 'sequence_lost' });
    await expect(step(3)).rejects.toMatchObject({ reason: 'sequence_closed' });
  });
});
