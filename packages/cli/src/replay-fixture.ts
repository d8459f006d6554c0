import type { RecordedStep, Recording } from '@nereid/protocol';
import { expect } from 'vitest';
import type { FilesHost } from './replay-files.ts';
import type { ReplayHost } from './replay-run.ts';

export const SERVER = 'http://127.0.0.1:8000';
export const ID = 'vad~gw-1:7';
export const RECORDING = {
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
export const STEP = {
  step: 0,
  token: 'gw-1:7',
  sequence_start: true,
  parameters: { threshold: 0.5, top: 3 },
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
export const LOST = {
  ...STEP,
  step: 1,
  received_at: RECORDING.last_at,
  effect: 'lost',
  answers: [],
  sequence_start: undefined,
};
export const DIFFERENCE = {
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
export const SHOWN =
  'step 412, output output [0,0]: recorded 0.0123, replayed 0.0125 (3 of 512 elements differ, by 0.0002 at most)';

/** Status and body; or the parts of one that breaks off after them. */
export type Answer = readonly [status: number, body: unknown] | Error | { readonly broken: readonly string[] };

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

/** A process whose calls get these answers in turn, and that has these files. */
export function callHost(answers: readonly Answer[], files: Readonly<Record<string, string>> = {}, isTerminal = false) {
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
      calls.push(`${method} ${decodeURIComponent(url.href.replace(`${SERVER}/nereid/v1/journal`, ''))}${sent}`);
      const answer = answers[calls.length - 1];
      if (answer === undefined || answer instanceof Error) throw answer ?? new Error('one call too many');
      if ('broken' in answer) return new Response(brokenBody(answer.broken));
      const [status, value] = answer;
      const isPlain = typeof value === 'string' || value instanceof Uint8Array;
      return new Response(isPlain ? (value as string) : JSON.stringify(value), { status });
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

/** As files have it. */
export function recordingOf(steps: number): Recording {
  return {
    id: ID,
    model: 'vad',
    version: '1',
    kind: 'sequence',
    correlationId: 5n,
    requestId: '',
    state: 'ended',
    steps,
    bytes: 8,
    startedMs: 0,
    lastMs: 0,
    worker: 'wk-1',
    configSha256: 'c0',
    contentHash: 'f0',
    imported: false,
  };
}

/** With this value as its output. */
export function stepOf(value: number, step: number): RecordedStep {
  const output = {
    name: 'OUT',
    datatype: 'FP32',
    shape: [1],
    data: new Uint8Array(Float32Array.of(value).buffer),
  } as const;
  return {
    step,
    token: `gw-1:${step}`,
    request: {
      id: '',
      correlationId: 5n,
      sequenceStart: step === 0,
      sequenceEnd: false,
      priority: 0n,
      timeoutUs: 0n,
      parameters: {},
      inputs: [],
      requestedOutputs: [],
    },
    modelVersion: '1',
    configSha256: 'c0',
    contentHash: 'f0',
    worker: 'wk-1',
    instance: 0,
    slot: 0,
    batchSize: 1,
    receivedMs: 0,
    timing: { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 },
    effect: 'applied',
    answers: [{ ok: true, parameters: {}, outputs: [output] }],
  };
}
