import { beforeEach, describe, expect, it } from 'vitest';
import { identity, modelRecord } from '../gateway-fixture.ts';
import {
  failure,
  int32,
  type MemoryJournal,
  memoryJournal,
  outputs,
  recordedStep,
  recordingOf,
} from '../journal-fixture.ts';
import { type HttpFixture, httpFixture } from './http-fixture.ts';
import { journalFixture } from './journal-fixture.ts';

const PATH = '/nereid/v1/journal';
const MODELS = [modelRecord(identity('m', 'INT32', '-1', 'max_batch_size: 1 sequence_batching { }'))];

const bytesOf = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);

let store: MemoryJournal;
let http: HttpFixture['http'];

beforeEach(async () => {
  store = memoryJournal();
  ({ http } = await journalFixture(store, { models: MODELS }));
});

async function call(method: 'GET' | 'DELETE' | 'POST', url: string) {
  const answer = await http.inject({ method, url: `${PATH}${url}`, headers: { host: 'localhost' } });
  return { status: answer.statusCode, body: answer.json() };
}

const STEPS = [recordedStep(0), recordedStep(1), recordedStep(2, { request: { sequenceEnd: true } })];

describe('a list of recordings', () => {
  beforeEach(() => {
    for (const [at, model] of ['b', 'a', 'a', 'b', 'a'].entries()) {
      const correlationId = at < 2 ? 5n : 'five';
      store.add(recordingOf(`${model}~gw-1:${at}`, STEPS, { startedMs: at, correlationId }), STEPS);
    }
    store.add(recordingOf('c~gw-1:9', STEPS, { state: 'open', worker: 'wk-1' }), STEPS);
    store.add(recordingOf('c~gw-1:8', STEPS, { state: 'open', worker: 'wk-gone' }), STEPS);
  });

  it('has them by model, of each the newest first, page by page', async () => {
    const pages: string[][] = [];
    for (let after = ''; ; ) {
      const { body } = await call('GET', `?limit=2${after}`);
      pages.push(body.recordings.map(({ id }: { id: string }) => id));
      if (body.next === undefined) break;
      after = `&after=${encodeURIComponent(body.next)}`;
    }
    expect(pages).toEqual([['a~gw-1:4', 'a~gw-1:2'], ['a~gw-1:1', 'b~gw-1:3'], ['b~gw-1:0', 'c~gw-1:9'], ['c~gw-1:8']]);
  });

  it('goes on behind the last of those asked for', async () => {
    const first = await call('GET', '?sequence_id=five&limit=1');
    const second = await call('GET', `?sequence_id=five&limit=2&after=${encodeURIComponent(first.body.next)}`);
    const ids = [first, second].map(({ body }) => body.recordings.map(({ id }: { id: string }) => id));
    expect(ids).toEqual([['a~gw-1:4'], ['a~gw-1:2', 'b~gw-1:3']]);
  });

  it.each([
    ['model=b', ['b~gw-1:3', 'b~gw-1:0']],
    ['sequence_id=5&model=a', ['a~gw-1:1']],
    ['sequence_id=five&limit=2', ['a~gw-1:4', 'a~gw-1:2']],
    ['state=open', ['c~gw-1:9']],
    // Its worker is gone, and could not say so.
    ['state=lost', ['c~gw-1:8']],
    ['model=none', []],
  ])('has those asked for by %s', async (query, ids) => {
    const { body } = await call('GET', `?${query}`);
    expect(body.recordings.map(({ id }: { id: string }) => id)).toEqual(ids);
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['state=over', 'state'],
    ['after=x', 'after'],
    ['model=a&model=b', 'model'],
  ])('refuses %s', async (query, field) => {
    expect(await call('GET', `?${query}`)).toMatchObject({ status: 400, body: { code: 'INVALID_ARG', field } });
  });
});

describe('a recording', () => {
  const ID = 'm~gw-1:7';

  it('is shown with its steps, from one on', async () => {
    store.add(recordingOf(ID, STEPS), STEPS);
    const { status, body } = await call('GET', `/${ID}?from=1&limit=1`);
    expect(status).toBe(200);
    expect(body).toEqual({
      recording: {
        id: ID,
        model_name: 'm',
        model_version: '1',
        kind: 'sequence',
        sequence_id: 5,
        state: 'ended',
        steps: 3,
        bytes: 100,
        started_at: '1970-01-01T00:00:01.000Z',
        last_at: '1970-01-01T00:00:01.200Z',
        worker: 'wk-1',
        config_sha256: '',
        content_hash: '',
        imported: false,
      },
      steps: [
        {
          step: 1,
          token: 'gw-0:2',
          sequence_id: 5,
          inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1, 1], byte_size: 4 }],
          model_version: '1',
          config_sha256: '',
          content_hash: '',
          worker: 'wk-1',
          instance: 0,
          slot: 0,
          batch_size: 1,
          received_at: '1970-01-01T00:00:01.100Z',
          timing: { wait_ns: 1, input_ns: 2, infer_ns: 3, output_ns: 4 },
          effect: 'applied',
          answers: [{ outputs: [{ name: 'OUTPUT', datatype: 'INT32', shape: [1, 1], byte_size: 4 }] }],
        },
      ],
      next: 2,
    });
  });

  it('has data where they are asked for, in a form that can be given back', async () => {
    const half = { name: 'HALF', datatype: 'FP16', shape: [1], data: Uint8Array.of(0, 60) } as const;
    const long = { name: 'LONG', datatype: 'INT64', shape: [1], data: new Uint8Array(8).fill(0x7f) } as const;
    const hidden = { name: 'HIDDEN', datatype: 'BYTES', shape: [1], redacted: true } as const;
    const apart = { name: 'APART', datatype: 'FP32', shape: [9], digest: 'abc' } as const;
    const steps = [
      recordedStep(0, {
        request: {
          correlationId: 'é',
          inputs: [int32('INPUT', 3), half, long, hidden],
          parameters: { big: 2n ** 60n },
        },
        answers: [failure({ code: 'INTERNAL', message: 'it broke' }), outputs(apart)],
      }),
    ];
    store.add(recordingOf(ID, steps), steps);
    const { body } = await call('GET', `/${encodeURIComponent(ID)}?data=true`);
    expect(body.next).toBeUndefined();
    expect(body.steps[0]).toMatchObject({ sequence_id: 'é', parameters: { big: '1152921504606846976' } });
    expect(body.steps[0].inputs).toEqual([
      { name: 'INPUT', datatype: 'INT32', shape: [1, 1], byte_size: 4, data: [3] },
      { name: 'HALF', datatype: 'FP16', shape: [1], byte_size: 2, b64: 'ADw=' },
      { name: 'LONG', datatype: 'INT64', shape: [1], byte_size: 8, data: ['9187201950435737471'] },
      hidden,
    ]);
    expect(body.steps[0].answers).toEqual([{ error: { code: 'INTERNAL', message: 'it broke' } }, { outputs: [apart] }]);
  });

  it('has data that JSON has no numbers for, or that are none, in a form that is the same when it comes back', async () => {
    const zeros = { name: 'ZEROS', datatype: 'FP32', shape: [3], data: bytesOf([-0, 0, Number.NaN]) } as const;
    const odd = { name: 'ODD', datatype: 'INT32', shape: [1], data: Uint8Array.of(1, 2, 3) } as const;
    const steps = [recordedStep(0, { request: { inputs: [zeros, odd] } })];
    store.add(recordingOf(ID, steps), steps);
    const { status, body } = await call('GET', `/${ID}?data=true`);
    expect([status, body.steps[0].inputs]).toEqual([
      200,
      [
        { name: 'ZEROS', datatype: 'FP32', shape: [3], byte_size: 12, data: ['-0.0', 0, 'NaN'] },
        { name: 'ODD', datatype: 'INT32', shape: [1], byte_size: 3, b64: 'AQID' },
      ],
    ]);
  });

  it('is shown in several answers where its data are large', async () => {
    const large = { name: 'INPUT', datatype: 'FP16', shape: [4.5e6], data: new Uint8Array(9e6) } as const;
    const steps = [0, 1].map((step) => recordedStep(step, { request: { inputs: [{ ...large }] } }));
    store.add(recordingOf(ID, steps), steps);
    expect((await call('GET', `/${ID}?data=true`)).body).toMatchObject({ steps: [{ step: 0 }], next: 1 });
    expect((await call('GET', `/${ID}`)).body.steps).toHaveLength(2);
  });

  it.each([
    ['that went with its worker between two steps', { state: 'open', worker: 'wk-gone' }, 'applied', 'lost', 3],
    ['that went with a step', { state: 'lost' }, 'lost', 'lost', 2],
    ['whose last step was cancelled', { state: 'cancelled' }, 'cancelled', 'cancelled', 2],
    ['that goes on', { state: 'open' }, 'applied', 'open', undefined],
    [
      'that came as a file while it went on',
      { state: 'open', worker: 'wk-x', imported: true },
      'applied',
      'open',
      undefined,
    ],
  ] as const)('%s tells how many of its steps took effect', async (_, parts, effect, state, applied) => {
    const steps = [...STEPS.slice(0, 2), recordedStep(2, { effect })];
    store.add(recordingOf(ID, steps, parts), steps);
    const { recording } = (await call('GET', `/${ID}`)).body;
    expect([recording.state, recording.steps, recording.steps_applied]).toEqual([state, 3, applied]);
  });

  it('is removed once', async () => {
    store.add(recordingOf(ID, STEPS), STEPS);
    expect(await call('DELETE', `/${ID}`)).toMatchObject({ status: 200, body: { id: ID, steps: 3 } });
    expect(await call('DELETE', `/${ID}`)).toMatchObject({ status: 404, body: { code: 'NOT_FOUND', field: 'id' } });
    const error = expect.stringMatching(/has run out; 'nereid replay ls' lists/);
    expect(await call('GET', `/${ID}`)).toMatchObject({ status: 404, body: { error, code: 'NOT_FOUND', field: 'id' } });
  });

  it.each([
    ['from=-1', 'from'],
    ['limit=1001', 'limit'],
    ['data=yes', 'data'],
  ])('is not shown with %s', async (query, field) => {
    expect(await call('GET', `/${ID}?${query}`)).toMatchObject({ status: 400, body: { code: 'INVALID_ARG', field } });
  });
});

it('recordings are for those who may make admin calls, and need a Redis', async () => {
  const { http: bare } = await httpFixture();
  const answer = (headers: Record<string, string>) => bare.inject({ method: 'GET', url: PATH, headers });
  expect((await answer({ host: 'localhost', via: '1.1 proxy' })).statusCode).toBe(403);
  const without = await answer({ host: 'localhost' });
  expect([without.statusCode, without.json().code]).toEqual([503, 'UNAVAILABLE']);
  expect(without.json().error).toContain('redis');
});
