import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { differenceText } from './difference-text.ts';
import { showRecording } from './recording-show.ts';
import { stateText } from './recording-text.ts';
import { listRecordings, removeRecording } from './recordings.ts';
import { diffRecordings } from './replay-diff.ts';
import { exportRecording, type FilesHost, importRecording } from './replay-files.ts';
import { type ReplayHost, runReplay } from './replay-run.ts';

const URL = 'http://127.0.0.1:8000';
const ID = 'vad~gw-1:7';
const RECORDING = {
  id: ID,
  model_name: 'vad',
  model_version: '1',
  kind: 'sequence',
  sequence_id: 5,
  state: 'lost',
  steps: 2,
  steps_applied: 1,
  bytes: 4_096,
  started_at: '2026-01-01T00:00:00.000Z',
  last_at: '2026-01-01T00:00:00.096Z',
  worker: 'wk-1',
  config_sha256: 'c0',
  content_hash: 'f0',
  imported: false,
};
const STEP = {
  step: 0,
  token: 'gw-1:7',
  sequence_start: true,
  parameters: { threshold: 0.5, top: { int64: '9007199254740993' } },
  inputs: [
    { name: 'input', datatype: 'FP32', shape: [1, 9], data: [0.10000000149011612, 0, 0, 0, 0, 0, 0, 0, 0] },
    { name: 'half', datatype: 'FP16', shape: [1], b64: 'AD4=' },
    { name: 'secret', datatype: 'BYTES', shape: [1], redacted: true },
  ],
  model_version: '1',
  worker: 'wk-1',
  instance: 0,
  slot: 2,
  batch_size: 4,
  received_at: '2026-01-01T00:00:00.000Z',
  timing: { wait_ns: 200_000, input_ns: 0, infer_ns: 1_250_000, output_ns: 0 },
  effect: 'applied',
  answers: [
    {
      outputs: [
        { name: 'output', datatype: 'FP32', shape: [1, 1], data: [0.012299999594688416] },
        { name: 'stateN', datatype: 'FP32', shape: [2, 64], digest: 'ab' },
      ],
    },
  ],
};
const LOST = {
  ...STEP,
  step: 1,
  received_at: RECORDING.last_at,
  effect: 'lost',
  answers: [],
  sequence_start: undefined,
};
const DIFFERENCE = {
  step: 412,
  kind: 'value',
  output: 'output',
  index: [0, 0],
  recorded: 0.012299999594688416,
  replayed: 0.012500000186264515,
  differing: 3,
  elements: 512,
  largest: 0.0002000005915760994,
};
const SHOWN =
  'step 412, output output [0,0]: recorded 0.0123, replayed 0.0125 (3 of 512 elements differ, by 0.0002 at most)';

/** Status and body; or the parts of one that breaks off after them. */
type Answer = readonly [status: number, body: unknown] | Error | { readonly broken: readonly string[] };

function brokenBody(parts: readonly string[]): ReadableStream<Uint8Array> {
  const left = [...parts];
  return new ReadableStream({
    pull(controller) {
      const part = left.shift();
      if (part === undefined) controller.error(new Error('reset'));
      else controller.enqueue(new TextEncoder().encode(part));
    },
  });
}

function callHost(answers: readonly Answer[], files: Readonly<Record<string, string>> = {}, isTerminal = false) {
  const calls: string[] = [];
  let out = '';
  let err = '';
  const host: ReplayHost & FilesHost = {
    env: { NEREID_ADMIN_KEY: 'k' },
    pid: 7,
    isTerminal,
    async fetch(url, { method, headers, body }) {
      expect(headers).toMatchObject({ 'Nereid-Admin-Key': 'k' });
      const sent = body === undefined || body === null ? '' : ` ${await new Response(body).text()}`;
      calls.push(`${method} ${decodeURIComponent(url.href.replace(`${URL}/nereid/v1/journal`, ''))}${sent}`);
      const answer = answers[calls.length - 1];
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('one call too many');
      if ('broken' in answer) return new Response(brokenBody(answer.broken));
      const [status, value] = answer;
      return new Response(typeof value === 'string' ? value : JSON.stringify(value), { status });
    },
    readFile(path) {
      const text = files[path];
      if (text === undefined) throw new Error('no such file');
      return text;
    },
    stdin: () => new Blob(['from stdin']).stream() as ReadableStream<Uint8Array>,
    async writeBytes(bytes) {
      out += Buffer.from(bytes).toString();
    },
    stdout: (text) => {
      out += text;
    },
    stderr: (text) => {
      err += text;
    },
  };
  return { host, calls, told: () => ({ out, err }) };
}

const one = { url: URL, id: ID };

describe('nereid replay ls and rm', () => {
  it('asks page by page until it has enough, and says that there may be more', async () => {
    const { host, calls, told } = callHost([
      [200, { recordings: Array.from({ length: 100 }, () => RECORDING), next: ID }],
      [200, { recordings: [{ ...RECORDING, kind: 'request', sequence_id: undefined, request_id: 'r' }], next: 'b' }],
    ]);
    const filter = { model: 'vad', state: 'lost', sequenceId: '5' };
    expect(await listRecordings({ url: URL, ...filter, limit: 101, json: false }, host)).toBe(0);
    expect(calls).toEqual([
      'GET ?model=vad&state=lost&sequence_id=5&limit=100',
      `GET ?model=vad&state=lost&sequence_id=5&limit=1&after=${ID}`,
    ]);
    const lines = told().out.split('\n');
    expect(lines[3]).toBe(
      '| vad~gw-1:7 | vad   | 1       | 5         | 2     | lost  | 2026-01-01T00:00:00.000Z | 4096  |',
    );
    expect(lines.at(-3)).toContain('| request r |');
    expect(told().err).toBe('nereid replay ls: there may be more than 101: raise --limit\n');
  });

  it('rm forgets one, or tells why not', async () => {
    const { host, calls, told } = callHost([
      [200, RECORDING],
      [404, { error: `recording '${ID}' is not found` }],
    ]);
    expect([await removeRecording(one, host), await removeRecording(one, host)]).toEqual([0, 1]);
    expect(calls).toEqual([`DELETE /${ID}`, `DELETE /${ID}`]);
    expect(told()).toEqual({ out: `removed ${ID}\n`, err: `nereid replay rm: recording '${ID}' is not found\n` });
  });
});

describe('nereid replay show', () => {
  const options = { ...one, from: 0, limit: 3, all: false, json: false };

  it('tells what it is of, which step took effect last, and the steps', async () => {
    const { host, calls, told } = callHost([
      [200, { recording: RECORDING, steps: [STEP], next: 1 }],
      [200, { recording: RECORDING, steps: [LOST] }],
    ]);
    expect(await showRecording(options, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}?from=0&limit=3&data=true`, `GET /${ID}?from=1&limit=2&data=true`]);
    const { out, err } = told();
    expect(err).toBe('');
    expect(out).toContain(
      'state      lost: step 0 is the last that took effect; step 1 came after it and was lost with what ran it\n',
    );
    const cells = out.split('\n').map((line) => line.split('|').map((cell) => cell.trim()));
    expect(cells.filter(([, step]) => step === '0' || step === '1')).toEqual([
      ['', '0', 'START', '+0 ms', '1', 'wk-1 slot 2', '4', '1.25 ms', 'applied', expect.stringMatching(/./), ''],
      ['', '1', '', '+96 ms', '1', 'wk-1 slot 2', '4', '1.25 ms', 'lost', '', ''],
    ]);
    expect(out).toContain('| output FP32[1,1] 0.0123; stateN FP32[2,64] not kept, SHA-256 ab |');
  });

  it('says where to go on', async () => {
    const { host, told } = callHost([[200, { recording: RECORDING, steps: [STEP], next: 1 }]]);
    expect(await showRecording({ ...options, limit: 1, json: true }, host)).toBe(0);
    expect(JSON.parse(told().out)).toEqual({ recording: RECORDING, steps: [STEP] });
    expect(told().err).toBe('nereid replay show: there are more steps: raise --limit, or go on with --from=1\n');
  });

  it('tells one step with its values', async () => {
    const { host, calls, told } = callHost([[200, { recording: RECORDING, steps: [STEP], next: 1 }]]);
    expect(await showRecording({ ...options, step: 0 }, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}?from=0&limit=1&data=true`]);
    expect(told().out).toBe(
      [
        'step     0 of vad~gw-1:7, START',
        'explain  gw-1:7',
        'came     2026-01-01T00:00:00.000Z, +0 ms',
        'ran      version 1 at wk-1, instance 0, slot 2, in a batch of 4: waited 0.20 ms, ran 1.25 ms',
        'effect   applied',
        'parameters',
        '  threshold  0.5',
        '  top        9007199254740993',
        'inputs',
        '  input   FP32[1,9] 0.1, 0, 0, 0, 0, 0, 0, 0, … (9 in all)',
        '  half    FP16[1] 1.5',
        '  secret  BYTES[1] redacted',
        'outputs',
        '  output  FP32[1,1] 0.0123',
        '  stateN  FP32[2,64] not kept, SHA-256 ab',
        '',
      ].join('\n'),
    );
  });

  it('tells all values where asked, and that there is no such step', async () => {
    const shown = callHost([[200, { recording: RECORDING, steps: [STEP] }]]);
    await showRecording({ ...options, step: 0, all: true }, shown.host);
    expect(shown.told().out).toContain('  input   FP32[1,9] 0.1, 0, 0, 0, 0, 0, 0, 0, 0\n');
    const { host, told } = callHost([[200, { recording: RECORDING, steps: [] }]]);
    expect(await showRecording({ ...options, step: 2 }, host)).toBe(1);
    expect(told().err).toBe(`nereid replay show: ${ID} has no step 2: it has 2, from 0\n`);
  });

  it.each([
    [{ state: 'lost', steps: 3, steps_applied: 3 }, 'lost: step 2 is the last that took effect; its state went'],
    [{ state: 'lost', steps: 1, steps_applied: 0 }, 'lost: no step took effect; step 0 came after it'],
    [{ state: 'gap', steps: 4, steps_applied: 4 }, 'gap: step 4 could not be recorded'],
    [{ state: 'capped', steps: 4, steps_applied: 4 }, 'capped: more came than is kept; step 3 is the last'],
    [{ state: 'ended', steps: 4, steps_applied: 4 }, 'ended'],
  ])('the state of %j in words', (of, text) => {
    expect(stateText({ ...RECORDING, ...of })).toContain(text);
  });
});

describe('nereid replay run', () => {
  const options = { ...one, record: false, stopAtFirst: false, json: false };
  const step = (number: number, equal = true) => `${JSON.stringify({ step: number, equal, took_ms: 1 })}\n`;
  const end = (members: object) => `${JSON.stringify({ steps: 2, compared: 2, ...members })}\n`;

  it.each<[string, string, object, number, string]>([
    ['equal', step(0) + step(1), { result: 'equal' }, 0, 'equal: 2 steps compared\n'],
    [
      'equal, recorded and with another configuration',
      `${step(0)}\n${step(1)}`,
      { result: 'equal', compared: 1, recording: 'vad~gw-1:9', config_changed: true },
      0,
      "equal: 1 step compared; the model's configuration is not the recorded one; recorded as vad~gw-1:9\n",
    ],
    ['different', step(0), { result: 'differs', first_difference: DIFFERENCE }, 1, `differs at ${SHOWN}\n`],
    [
      'different at several',
      step(0, false) + step(1, false),
      { result: 'differs', first_difference: DIFFERENCE },
      1,
      `differs at ${SHOWN}; 2 of 2 steps differ\n`,
    ],
  ])('%s: one verdict, and its exit code', async (_what, steps, verdict, exitCode, out) => {
    const { host, calls, told } = callHost([[200, steps + end(verdict)]]);
    expect(await runReplay(options, host)).toBe(exitCode);
    expect(calls).toEqual([`POST /${ID}/replay {"record":false,"stop_at_first":false}`]);
    expect(told()).toEqual({ out, err: '' });
  });

  it('sends what is asked for, with the text of the file as it is', async () => {
    const inputs = '{"inputs": [{"name": "A", "datatype": "INT64", "shape": [1], "data": [9007199254740993]}]}';
    const { host, calls } = callHost([[200, end({ result: 'equal' })]], { 'f.json': `\n ${inputs}\n` });
    const asked = { version: '2', pace: 2.5, from: 3, until: 9, atol: 1e-6, replace: { step: 4, file: 'f.json' } };
    expect(await runReplay({ ...options, ...asked }, host)).toBe(0);
    expect(calls).toEqual([
      `POST /${ID}/replay {"version":"2","pace":2.5,"from":3,"until":9,"atol":0.000001,"record":false,"stop_at_first":false,"replace":{"step":4,${inputs.slice(1)}}`,
    ]);
  });

  it.each([
    ['none', 'no such file'],
    ['text', 'Unexpected'],
    ['list', 'it is no JSON object'],
    ['empty', "it has no 'inputs'"],
    ['more', "it has the member 'step'"],
  ])('a file that is %s asks nobody', async (file, why) => {
    const files = { text: 'x', list: '[]', empty: '{}', more: '{"inputs": [], "step": 3}' };
    const { host, calls, told } = callHost([], files);
    expect(await runReplay({ ...options, replace: { step: 4, file } }, host)).toBe(2);
    expect([calls, told().out]).toEqual([[], '']);
    expect(told().err).toMatch(new RegExp(`^nereid replay run: could not run: --replace=4=${file}: .*${why}.*\n$`));
  });

  it.each<[string, Answer, string]>([
    ['the server refuses it', [404, { error: 'no version 9' }], 'no version 9'],
    ['it fails', [200, step(0) + end({ result: 'failed', error: { code: 'INTERNAL', message: 'x' } })], 'INTERNAL: x'],
    ['nobody answers', new Error('refused'), `no server answers at ${URL}`],
    ['the connection breaks', { broken: [step(0)] }, 'the connection broke off after 1 steps: reset'],
    ['the answer ends too early', [200, step(0) + step(1)], 'the server ended it after 2 steps'],
    ['it is another server', [200, '<html>\n'], 'no JSON'],
  ])('is 2 where %s', async (_what, answer, why) => {
    const { host, told } = callHost([answer]);
    expect(await runReplay(options, host)).toBe(2);
    expect(told().out).toBe('');
    expect(told().err).toMatch(/^nereid replay run: could not run: [^\n]*\n$/);
    expect(told().err).toContain(why);
  });

  it('prints the lines as they come as JSON, and tells a terminal how far it is otherwise', async () => {
    const lines = step(0) + end({ result: 'equal' });
    const json = callHost([[200, lines]], {}, true);
    expect(await runReplay({ ...options, json: true }, json.host)).toBe(0);
    expect(json.told()).toEqual({ out: lines, err: '' });
    const plain = callHost([[200, lines]], {}, true);
    await runReplay(options, plain.host);
    expect(plain.told().err).toBe('\r\u001b[Kstep 0: 1 replayed, 0 differ\r\u001b[K');
  });
});

describe('what differs', () => {
  it.each<[object, string]>([
    [{ kind: 'answers', recorded: 3, replayed: 2 }, 'step 1: recorded answers: 3, replayed answers: 2'],
    [
      { kind: 'error', answer: 1, recorded: { code: 'INTERNAL', message: 'x' }, replayed: null },
      'step 1, answer 1: recorded the error INTERNAL: x, replayed none',
    ],
    [
      { kind: 'missing', output: 'a', recorded: { datatype: 'FP32', shape: [1, 2] }, replayed: null },
      'step 1, output a: recorded FP32[1,2], replayed none',
    ],
    [{ kind: 'shape', output: 'a', recorded: [1, 2], replayed: [2] }, 'recorded shape [1,2], replayed shape [2]'],
    [{ kind: 'digest', output: 'a', recorded: 'ab', replayed: 'cd' }, 'recorded SHA-256 ab, replayed SHA-256 cd'],
    [
      {
        kind: 'value',
        output: 'a',
        index: [],
        recorded: '9007199254740993',
        replayed: '-0',
        differing: 1,
        elements: 1,
      },
      'step 1, output a: recorded 9007199254740993, replayed -0',
    ],
    [
      { kind: 'value', output: 'a', recorded: { base64: '/w==' }, replayed: 0.1 },
      'recorded bytes /w== (base64), replayed 0.1',
    ],
  ])('%j in words', (difference, text) => {
    expect(differenceText({ step: 1, ...difference } as never)).toContain(text);
  });
});

describe('nereid replay diff', () => {
  it.each<[Answer, number, string, string]>([
    [[200, { result: 'equal', compared: 9 }], 0, 'equal: 9 steps compared\n', ''],
    [[200, { result: 'differs', compared: 9, first_difference: DIFFERENCE }], 1, `differs at ${SHOWN}\n`, ''],
    [[404, { error: 'not found' }], 2, '', 'nereid replay diff: could not run: not found\n'],
  ])('two recordings: %j', async (answer, exitCode, out, err) => {
    const { host, calls, told } = callHost([answer]);
    expect(await diffRecordings({ url: URL, recordings: [ID, 'vad~b'], rtol: 0.5, json: false }, host)).toBe(exitCode);
    expect(calls).toEqual([`GET /${ID}/diff?with=vad~b&rtol=0.5`]);
    expect(told()).toEqual({ out, err });
  });
});

describe('nereid replay export and import', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-replay-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('export writes a file, whole or not at all', async () => {
    const out = join(folder, 'a.nrj');
    const { host, calls, told } = callHost([[200, 'whole'], { broken: ['half'] }]);
    const options = { ...one, out, gzip: true };
    expect(await exportRecording(options, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}/export?gzip=true`]);
    expect(told()).toEqual({ out: `wrote ${ID} to ${out}, 5 bytes\n`, err: '' });
    expect(await exportRecording(options, host)).toBe(1);
    expect(told().err).toBe(`nereid replay export: ${out}: reset\n`);
    expect([readdirSync(folder), readFileSync(out, 'utf8')]).toEqual([['a.nrj'], 'whole']);
  });

  it('export writes to standard output and nothing beside', async () => {
    const { host, calls, told } = callHost([[200, 'whole']]);
    expect(await exportRecording({ ...one, out: '-', gzip: false }, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}/export`]);
    expect(told()).toEqual({ out: 'whole', err: '' });
  });

  it.each([
    ['a file', (path: string) => path, 'from file'],
    ['standard input', () => '-', 'from stdin'],
  ])('import sends %s and tells the new id', async (_what, name, sent) => {
    const path = join(folder, 'b.nrj');
    writeFileSync(path, 'from file');
    const { host, calls, told } = callHost([[201, { ...RECORDING, id: 'vad~import-x' }]]);
    expect(await importRecording({ url: URL, file: name(path) }, host)).toBe(0);
    expect(calls).toEqual([`POST  ${sent}`]);
    expect(told()).toEqual({ out: 'imported as vad~import-x: 2 steps of model vad\n', err: '' });
  });

  it('import of a file that is not there asks nobody, and a refusal is told', async () => {
    const { host, calls, told } = callHost([[400, { error: 'broken frame of a journal' }]]);
    expect(await importRecording({ url: URL, file: join(folder, 'none') }, host)).toBe(2);
    expect(calls).toEqual([]);
    expect(told().err).toMatch(/^nereid replay import: cannot read .*ENOENT[^\n]*\n$/);
    expect(await importRecording({ url: URL, file: '-' }, host)).toBe(1);
    expect(told().err).toContain('nereid replay import: broken frame of a journal\n');
  });
});
