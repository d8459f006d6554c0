import type { InferMessage, Message, Outcome } from '@nereid/protocol';
import type { Mailbox } from '@nereid/transport';
import { beforeEach, describe, expect, it } from 'vitest';
import { echo, identity, modelRecord, readyVersion, responseTo } from '../gateway-fixture.ts';
import {
  configSha256,
  int32,
  type MemoryJournal,
  memoryJournal,
  outputs,
  recordedStep,
  recordingOf,
} from '../journal-fixture.ts';
import { type HttpFixture, openConnection, post } from './http-fixture.ts';
import { journalFixture } from './journal-fixture.ts';

const PATH = '/nereid/v1/journal';
const MODEL = modelRecord(identity('m', 'INT32', '-1', 'max_batch_size: 1 sequence_batching { }'), [
  readyVersion('1'),
  readyVersion('2'),
]);
const WORDS = modelRecord(
  identity('words', 'INT32', '-1', 'max_batch_size: 1 model_transaction_policy { decoupled: true }'),
);
const PLAIN = modelRecord(identity('plain', 'INT32', '-1', 'max_batch_size: 1'));
const ID = 'm~gw-0:1';
/** Their sequence goes on behind the last. */
const STEPS = [0, 1, 2, 3].map((step) => recordedStep(step));

let store: MemoryJournal;
let fixture: HttpFixture;
/** Sessions that the model has now. */
let sessions: Set<string>;
/** Ids of further ones. */
let live: readonly bigint[];
/** What the model gives in place of its input. */
let answers: (message: InferMessage) => Outcome | undefined;

beforeEach(async () => {
  store = memoryJournal();
  sessions = new Set();
  live = [];
  answers = echo;
  fixture = await journalFixture(store, { models: [MODEL, WORDS, PLAIN], told });
  const facts = { configSha256: configSha256(MODEL), contentHash: MODEL.contentHash };
  store.add(recordingOf(ID, STEPS, facts), STEPS);
});

const SEQUENCE = { version: '1', place: null, backlog: 0, steps: 1, waiting: 0, idleUs: 0, ageUs: 0 } as const;

/** A coordinator that keeps sequences. */
function told(message: Message, coordinator: Mailbox): void {
  if (message.kind === 'infer') {
    const { request, id, session } = message;
    if (request.sequenceStart) sessions.add(id);
    if (request.sequenceEnd && session !== null) sessions.delete(session);
    const outcome = answers(message);
    if (outcome !== undefined) coordinator.send(message.replyTo, responseTo(message, outcome));
  } else if (message.kind === 'list') {
    const { id, model, after } = message;
    // One a page.
    const sequences = live.map((correlationId, index) => ({ ...SEQUENCE, session: `gw-9:${index}`, correlationId }));
    const left = sequences.filter(({ session }) => session > after);
    const more = left.length > 1;
    coordinator.send('gw-1', { kind: 'listed', model, id, sequences: left.slice(0, 1), more });
  } else if (message.kind === 'evict') {
    const sequence = { ...SEQUENCE, session: message.session, correlationId: 5n };
    const found = sessions.delete(message.session) ? [sequence] : [];
    coordinator.send('gw-1', { kind: 'listed', model: 'm', id: message.id, sequences: found, more: false });
  }
}

async function replay(wishes?: unknown, id = ID) {
  const payload = wishes === undefined ? {} : { payload: wishes as object };
  const url = `${PATH}/${id}/replay`;
  const answer = await fixture.http.inject({ method: 'POST', url, headers: { host: 'localhost' }, ...payload });
  const lines = answer.body
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
  return { status: answer.statusCode, type: answer.headers['content-type'], lines };
}

const requests = () => fixture.received.flatMap((message) => (message.kind === 'infer' ? [message.request] : []));

describe('a replay', () => {
  it('shows an id of its own, of the same kind, while a sequence with the recorded one goes on', async () => {
    live = [6n, 7n, 5n];
    const { lines } = await replay();
    expect(lines.at(-1)).toMatchObject({ result: 'equal', own_id_shown: true });
    const [first] = requests();
    expect(first?.correlationId).toBeTypeOf('bigint');
    expect(first?.correlationId).not.toBe(5n);
    expect(requests().map(({ shownId }) => shownId)).toEqual([1, 2, 3, 4].map(() => first?.correlationId));
    live = [6n, 7n];
    expect((await replay()).lines.at(-1)).not.toHaveProperty('own_id_shown');
    expect(requests().at(-1)).toMatchObject({ shownId: 5n });
  });

  it('tells each step and the end, and leaves no sequence', async () => {
    const { status, type, lines } = await replay();
    expect([status, type]).toEqual([200, 'application/x-ndjson']);
    expect(lines).toEqual([
      ...[0, 1, 2, 3].map((step) => ({ step, equal: true, took_ms: expect.any(Number) })),
      { result: 'equal', steps: 4, compared: 4 },
    ]);
    expect(requests()).toMatchObject([0, 1, 2, 3].map((step) => ({ shownId: 5n, inputs: [int32('INPUT', step)] })));
    expect(requests()[0]).toMatchObject({ modelVersion: '1', journal: false });
    expect(sessions.size).toBe(0);
  });

  it('of another version with other inputs tells what differs, and its own recording', async () => {
    const inputs = [{ name: 'INPUT', datatype: 'INT32', shape: [1, 1], data: [9] }];
    const { lines } = await replay({ version: '2', from: 1, until: 3, replace: { step: 2, inputs }, record: true });
    const difference = { step: 2, kind: 'value', output: 'OUTPUT', index: [0, 0], recorded: 2, replayed: 9 };
    expect(lines).toMatchObject([
      { step: 1, equal: true },
      { step: 2, equal: false, difference },
      { result: 'differs', steps: 3, compared: 2, first_difference: difference, recording: 'm~gw-1:1' },
    ]);
    expect(requests()).toMatchObject([
      { modelVersion: '2', journal: true },
      { modelVersion: '2' },
      { inputs: [int32('INPUT', 9)] },
    ]);
  });

  it('reads inputs as they are shown', async () => {
    const url = `${PATH}/${ID}?data=true&from=2&limit=1`;
    const shown = (await fixture.http.inject({ method: 'GET', url, headers: { host: 'localhost' } })).json();
    const { lines } = await replay({ replace: { step: 2, inputs: shown.steps[0].inputs } });
    expect(lines.at(-1).result).toBe('equal');
  });

  it('says that the model was changed since', async () => {
    store.add(recordingOf(ID, STEPS, { configSha256: configSha256(MODEL), contentHash: 'other' }), STEPS);
    expect((await replay()).lines.at(-1)).toEqual({ result: 'equal', steps: 4, compared: 4, config_changed: true });
  });

  it('of a decoupled model compares all answers to a request', async () => {
    const steps = [recordedStep(0, { answers: [outputs(int32('OUTPUT', 0)), outputs(int32('OUTPUT', 7))] })];
    store.add(recordingOf('words~gw-0:2', steps, { kind: 'request' }), steps);
    answers = (message) => {
      const response = { modelName: 'words', modelVersion: '1', id: '', parameters: {} };
      // The last is the end alone.
      for (const [chunk, given] of [[int32('OUTPUT', 0)], [int32('OUTPUT', 8)], []].entries()) {
        const outcome: Outcome = { ok: true, response: { ...response, outputs: given } };
        fixture.coordinator.send('gw-1', { ...responseTo(message, outcome), chunk, last: chunk === 2 });
      }
      return undefined;
    };
    const { lines } = await replay(undefined, 'words~gw-0:2');
    expect(lines.at(-1)).toMatchObject({
      result: 'differs',
      first_difference: { kind: 'value', answer: 1, recorded: 7, replayed: 8 },
    });
  });

  it('that cannot go on says so in its last line', async () => {
    answers = (message) => {
      if (requests().length < 3) return echo(message);
      return { ok: false, error: { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size' } };
    };
    const { status, lines } = await replay();
    expect([status, lines.length]).toEqual([200, 3]);
    const error = { code: 'UNAVAILABLE', message: 'Exceeds maximum queue size', step: 2 };
    expect(lines.at(-1)).toEqual({ result: 'failed', steps: 2, compared: 2, error });
    expect(sessions.size).toBe(0);
  });

  it('whose client leaves ends, and leaves no sequence', async () => {
    const arrived = new Promise<void>((resolve) => {
      answers = (message) => {
        if (requests().length < 3) return echo(message);
        resolve();
        return undefined;
      };
    });
    const { url } = await fixture.http.listen();
    const { socket, until } = await openConnection(url);
    socket.write(post(`${PATH}/${ID}/replay`, '').replace('Host: test', 'Host: localhost'));
    await until(/"step":1/);
    await arrived;
    expect(sessions.size).toBe(1);
    socket.destroy();
    while (sessions.size > 0) await new Promise((resolve) => setImmediate(resolve));
    await fixture.http.close(100);
    expect(requests()).toHaveLength(3);
  });

  it('ends where the server stops, though its next step has long to wait', async () => {
    const steps = STEPS.map((step) => ({ ...step, receivedMs: step.step * 3_600_000 }));
    store.add(recordingOf(ID, steps), steps);
    const { url } = await fixture.http.listen();
    const { socket, ended, until } = await openConnection(url);
    const wishes = '{"pace":"recorded"}';
    socket.write(post(`${PATH}/${ID}/replay`, wishes).replace('Host: test', 'Host: localhost'));
    await until(/"step":0/);
    await fixture.http.close(60_000);
    expect(await ended()).toMatch(
      /"result":"failed","steps":1,"compared":1,"error":{"code":"UNAVAILABLE","message":"Server is stopping/,
    );
    expect(sessions.size).toBe(0);
  });

  it('is refused where sixteen run already', async () => {
    const held: InferMessage[] = [];
    const all = new Promise<void>((resolve) => {
      answers = (message) => {
        held.push(message);
        if (held.length === 16) resolve();
        return undefined;
      };
    });
    const running = Array.from({ length: 16 }, () => replay());
    await all;
    expect(await replay()).toMatchObject({ status: 503, lines: [{ code: 'UNAVAILABLE' }] });
    answers = echo;
    for (const message of held) fixture.coordinator.send('gw-1', responseTo(message, echo(message)));
    const results = (await Promise.all(running)).map(({ lines }) => lines.at(-1).result);
    expect(results).toEqual(Array.from({ length: 16 }, () => 'equal'));
    expect((await replay()).status).toBe(200);
  });
});

const tensor = { name: 'INPUT', datatype: 'INT32', shape: [1, 1], data: [9] };

it.each<[string, unknown, number, string]>([
  ['a version that is not there', { version: '3' }, 404, 'version'],
  ['a version that is none', { version: 'x' }, 400, 'version'],
  ['a first step that is not there', { from: 4 }, 400, 'from'],
  ['a first step that is none', { from: -1 }, 400, 'from'],
  ['an end behind the last step', { until: 5 }, 400, 'until'],
  ['an end before the first step', { from: 2, until: 2 }, 400, 'until'],
  ['a pace of nothing', { pace: 0 }, 400, 'pace'],
  ['a pace that is none', { pace: 'fast' }, 400, 'pace'],
  ['a tolerance below nothing', { atol: -1 }, 400, 'atol'],
  ['a tolerance that is none', { rtol: '1' }, 400, 'rtol'],
  ['a flag that is none', { record: 1 }, 400, 'record'],
  ['a member that is none', { form: 1 }, 400, 'form'],
  ['no object', [1], 400, 'body'],
  ['a replacement without inputs', { replace: { step: 1 } }, 400, 'replace'],
  ['a replaced step that is not run', { until: 2, replace: { step: 2, inputs: [tensor] } }, 400, 'replace.step'],
  ['an input twice', { replace: { step: 1, inputs: [tensor, tensor] } }, 400, 'replace.inputs'],
  ['a replacement with more', { replace: { step: 1, inputs: [tensor], input: [] } }, 400, 'replace'],
  ['an input of no name', { replace: { step: 1, inputs: [{ ...tensor, name: 'X' }] } }, 400, 'replace.inputs'],
  [
    'an input of other data',
    { replace: { step: 1, inputs: [{ ...tensor, data: [1, 2] }] } },
    400,
    'replace.inputs[0].data',
  ],
  [
    'an input of the wrong datatype',
    { replace: { step: 0, inputs: [{ ...tensor, datatype: 'INT8' }] } },
    400,
    'inputs[0].datatype',
  ],
])('a replay is refused with %s', async (_, wishes, status, field) => {
  const { lines, ...answer } = await replay(wishes);
  expect([answer.status, lines[0].field]).toEqual([status, field]);
  expect(requests()).toEqual([]);
});

it('a replay is refused of what is not there', async () => {
  expect(await replay(undefined, 'm~gw-0:9')).toMatchObject({ status: 404, lines: [{ field: 'id' }] });
  store.add(recordingOf('gone~gw-0:1', STEPS), STEPS);
  const error = expect.stringMatching(/: load it, or name a version that is served \(1 was recorded\)$/);
  expect(await replay(undefined, 'gone~gw-0:1')).toMatchObject({ status: 404, lines: [{ error, code: 'NOT_FOUND' }] });
});

it('a replay is refused where the replaced step took no effect, so that it is not run', async () => {
  const steps = [...STEPS, recordedStep(4, { effect: 'lost', answers: [] })];
  store.add(recordingOf('m~gw-0:2', steps), steps);
  const refused = await replay({ replace: { step: 4, inputs: [tensor] } }, 'm~gw-0:2');
  expect(refused).toMatchObject({
    status: 400,
    lines: [{ error: 'step 4 is not run: it was lost when it was recorded', field: 'replace.step' }],
  });
  expect(requests()).toEqual([]);
});

describe('two recordings', () => {
  const OTHER = 'm~import-1';
  const diff = async (query: string) => {
    const url = `${PATH}/${ID}/diff?${query}`;
    return (await fixture.http.inject({ method: 'GET', url, headers: { host: 'localhost' } })).json();
  };

  it.each([
    ['equal', STEPS, { result: 'equal', compared: 4 }],
    [
      'equal up to what took no effect',
      [...STEPS, recordedStep(4, { effect: 'lost', answers: [] })],
      { result: 'equal', compared: 4 },
    ],
    [
      'other in a value',
      STEPS.with(2, recordedStep(2, { answers: [outputs(int32('OUTPUT', 8))] })),
      { result: 'differs', compared: 3, first_difference: { step: 2, kind: 'value', recorded: 2, replayed: 8 } },
    ],
    [
      'shorter',
      STEPS.slice(0, 3),
      { compared: 3, first_difference: { step: 3, kind: 'steps', recorded: true, replayed: false } },
    ],
    [
      'longer',
      [...STEPS, recordedStep(4)],
      { compared: 4, first_difference: { step: 4, kind: 'steps', recorded: false, replayed: true } },
    ],
  ])('are %s', async (_, steps, expected) => {
    store.add(recordingOf(OTHER, steps), steps);
    expect(await diff(`with=${encodeURIComponent(OTHER)}`)).toMatchObject(expected);
  });

  it.each([
    ['', 'with'],
    ['with=m~gw-0:9', 'with'],
    ['with=m~gw-0:1&atol=x', 'atol'],
    ['with=m~gw-0:1&rtol=-1', 'rtol'],
  ])('are not compared with %s', async (query, field) => {
    expect(await diff(query)).toMatchObject({ field });
  });
});
