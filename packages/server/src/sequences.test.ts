/** Sequences through a real model in one process: the server's own API and both doors. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createServer, type SequenceInput, type Server } from './index.ts';

const CONFIG = `backend: "javascript" max_batch_size: 4
  input [{ name: "IN", data_type: TYPE_INT32, dims: [ 1 ] }]
  output [{ name: "OUT", data_type: TYPE_INT32, dims: [ 1 ] }]
  sequence_batching { max_sequence_idle_microseconds: 60000000
    control_input [
      { name: "START", control [{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }] },
      { name: "ID", control [{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING }] } ]
    oldest { max_candidate_sequences: 64 } }`;

/** Running sums; a step with `fail` fails, one with `hold` takes long, one with `exit` ends the thread. */
const SUMS = `
  const sums = new Map();
  export async function execute(requests) {
    const answers = [];
    for (const { inputs, parameters } of requests) {
      if (parameters.nereid_step !== undefined) throw new Error('the model sees nereid_step');
      const id = Buffer.from(inputs.get('ID').data[0]).toString();
      if (parameters.exit) process.exit(3);
      if (parameters.hold) await new Promise((resolve) => setTimeout(resolve, 100));
      if (parameters.fail) {
        answers.push(new Error('asked to'));
        continue;
      }
      const before = inputs.get('START').data[0] === 1 ? 0 : sums.get(id);
      sums.set(id, before + inputs.get('IN').data[0]);
      answers.push({ outputs: { OUT: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(sums.get(id)) } } });
    }
    return answers;
  }`;

let repository: string;
let server: Server;

beforeAll(async () => {
  repository = await mkdtemp(join(tmpdir(), 'nereid-sequences-'));
  await mkdir(join(repository, 'sums', '1'), { recursive: true });
  await writeFile(join(repository, 'sums', 'config.pbtxt'), CONFIG);
  await writeFile(join(repository, 'sums', '1', 'model.mjs'), SUMS);
  server = await createServer({ modelRepositories: [repository], http: { port: 0 } });
});
afterAll(async () => {
  await server.stop();
  await rm(repository, { recursive: true, force: true });
});

const NEEDS_START = /^inference request for sequence .* must specify the START flag on the first request/;

/** The sum, or the code and reason of the error. */
async function ask(value: number, sequence: SequenceInput, more: { parameters?: object; signal?: AbortSignal } = {}) {
  const { parameters = {}, signal } = more;
  const inputs = { IN: { datatype: 'INT32' as const, shape: [1, 1], data: [value] } };
  const input = { model: 'sums', sequence, parameters: { ...parameters }, inputs };
  try {
    const { outputs } = await server.infer(input, signal === undefined ? {} : { signal });
    return Number(outputs.OUT?.data[0]);
  } catch (thrown) {
    const { code, reason } = thrown as { code: string; reason?: string };
    return reason === undefined ? code : `${code} ${reason}`;
  }
}

describe('a sequence', () => {
  test('of pipelined steps is answered in order, each step once', async () => {
    const steps = Array.from({ length: 200 }, (_, i) => ask(1, { id: 'many', start: i === 0, end: i === 199 }));
    expect(await Promise.all(steps)).toEqual(Array.from({ length: 200 }, (_, i) => i + 1));
    expect(await ask(1, { id: 'many' })).toBe('INVALID_ARG');
  });

  test('goes on behind an error of its model', async () => {
    const steps = [
      ask(1, { id: 1, start: true }),
      ask(5, { id: 1 }, { parameters: { fail: true } }),
      ask(2, { id: 1, end: true }),
    ];
    expect(await Promise.all(steps)).toEqual([1, 'INTERNAL', 3]);
  });

  test('begins anew by a START behind steps of the one before', async () => {
    const steps = [
      ask(1, { id: 2, start: true }, { parameters: { hold: true } }),
      ask(2, { id: 2 }),
      ask(10, { id: 2, start: true }),
      ask(5, { id: 2, end: true }),
    ];
    expect(await Promise.all(steps)).toEqual([1, 3, 10, 15]);
  });

  test('ends with a step whose caller leaves, and may begin anew', async () => {
    const leaving = new AbortController();
    const steps = [
      ask(1, { id: 3, start: true }, { parameters: { hold: true } }),
      ask(2, { id: 3 }, { signal: leaving.signal }),
      ask(3, { id: 3 }),
    ];
    leaving.abort();
    expect((await Promise.all(steps)).slice(1)).toEqual(['CANCELLED', 'CANCELLED sequence_lost']);
    expect(await ask(4, { id: 3 })).toBe('INVALID_ARG sequence_lost');
    expect([await ask(7, { id: 3, start: true }), await ask(1, { id: 3, end: true })]).toEqual([7, 8]);
  });

  test('of numbered steps takes each once, whoever asks how often, also after its END', async () => {
    const leaving = new AbortController();
    const steps = [
      ask(1, { id: 'n', start: true, step: 0 }, { parameters: { hold: true } }),
      ask(2, { id: 'n', step: 1 }, { signal: leaving.signal }),
      ask(2, { id: 'n', step: 1 }),
      ask(4, { id: 'n', step: 3 }),
    ];
    leaving.abort();
    expect(await Promise.all(steps)).toEqual([1, 'CANCELLED', 3, 'INVALID_ARG step_gap']);
    expect(await ask(1, { id: 'n', start: true, step: 0 })).toBe(1);
    expect(await ask(3, { id: 'n', step: 2, end: true })).toBe(6);
    expect(await ask(3, { id: 'n', step: 2, end: true })).toBe(6);
  });
});

test('HTTP tells that a sequence was lost, or never was', async () => {
  const post = async (sequence_id: number, more = {}) => {
    const answer = await fetch(`${server.urls.http}/v2/models/sums/infer`, {
      method: 'POST',
      body: JSON.stringify({
        parameters: { sequence_id, ...more },
        inputs: [{ name: 'IN', shape: [1, 1], datatype: 'INT32', data: [1] }],
      }),
    });
    const { error } = (await answer.json()) as { error?: string };
    return [answer.status, answer.headers.get('nereid-error'), error];
  };
  expect(await post(70)).toEqual([400, 'INVALID_ARG', expect.stringMatching(NEEDS_START)]);
  expect(await post(71, { sequence_start: true })).toEqual([200, null, undefined]);
  // Ends its thread, with the sequences that it has.
  const lost = [400, 'INVALID_ARG; reason=sequence_lost', expect.stringMatching(NEEDS_START)];
  expect(await post(71, { exit: true })).toEqual(lost);
  expect(await post(71)).toEqual(lost);
  expect((await post(0, { nereid_step: 1 })).slice(0, 2)).toEqual([400, 'INVALID_ARG; field=parameters.nereid_step']);
});
