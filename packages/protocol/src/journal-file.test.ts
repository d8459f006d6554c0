import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NereidError } from './error.ts';
import { type JournalFile, type JournalFileLimits, readJournalFile, writeJournalFile } from './journal-file.ts';
import { encodeStepFrame, encodeTensorFrame } from './journal-frame.ts';
import type { RecordedStep, Recording } from './recorded.ts';
import { apart, SAMPLE_RECORDING, SAMPLE_STEP, SAMPLE_STEPS, sampleTensor } from './sample-recording.ts';
import { sha256 } from './sha256.ts';

const LIMITS: JournalFileLimits = { steps_max: 100, bytes_max: 1_000_000 };

async function written(recording = SAMPLE_RECORDING, steps = SAMPLE_STEPS, gzip = false): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of writeJournalFile(recording, steps, { gzip })) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function* inChunks(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.byteLength; at += size) yield bytes.subarray(at, at + size);
}

interface Read {
  readonly recording: Recording;
  readonly steps: readonly RecordedStep[];
}

async function readBack(chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>, limits = LIMITS): Promise<Read> {
  const { recording, steps } = await readJournalFile(chunks, limits);
  const read: RecordedStep[] = [];
  for await (const step of steps) read.push(step);
  return { recording, steps: read };
}

const whole: Read = { recording: SAMPLE_RECORDING, steps: SAMPLE_STEPS };

/** A file of these frames with the right end; `end` changes the SHA-256 there. */
function fileOf(steps: number, frames: readonly Uint8Array[], behind: Uint8Array = new Uint8Array()): Buffer {
  const header = `{"format":"nereid-journal","version":1,"id":"i","model":"m","version_of_model":"1","config_sha256":"c","steps":${steps},"kind":"request","state":"ended","bytes":0,"request_id":"","worker":"w","started_ms":1,"last_ms":1,"content_hash":"h"}\n`;
  const body = Buffer.concat([Buffer.from(header), ...frames.map(prefixed)]);
  const head = Buffer.from(JSON.stringify({ sha256: sha256(body) }));
  const end = Buffer.concat([Buffer.from('Nj\x01\x03'), uint32(head.byteLength), head]);
  return Buffer.concat([body, prefixed(end), behind]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function prefixed(frame: Uint8Array): Buffer {
  return Buffer.concat([uint32(frame.byteLength), frame]);
}

const stepFrame = (step: number) => encodeStepFrame({ ...SAMPLE_STEP, step });
const tensorFrame = ({ data }: { readonly data?: Uint8Array }) =>
  encodeTensorFrame(sha256(data ?? bytes()), data ?? bytes());
const bytes = (...values: number[]) => Uint8Array.from(values);

describe('a journal file', () => {
  test.each([
    ['in one chunk', false, Number.MAX_SAFE_INTEGER],
    ['in chunks of any size', false, 4_099],
    ['gzipped', true, Number.MAX_SAFE_INTEGER],
    ['gzipped, byte by byte', true, 1],
  ])('gives back the recording that it is of: %s', async (_how, gzip, size) => {
    expect(await readBack(inChunks(await written(SAMPLE_RECORDING, SAMPLE_STEPS, gzip), size))).toEqual(whole);
  });

  test.each([
    ['of a sequence whose id is a text', { correlationId: '7' }],
    ['of a single request', { kind: 'request', correlationId: 0n, state: 'cancelled' }],
  ] as const)('gives back a recording %s', async (_of, members) => {
    const recording: Recording = { ...SAMPLE_RECORDING, ...members, steps: 0 };
    expect(await readBack([await written(recording, [])])).toEqual({ recording, steps: [] });
  });

  test('begins with a line of JSON that says what it is', async () => {
    const file = await written();
    expect(JSON.parse(file.toString('utf8', 0, file.indexOf('\n')))).toMatchObject({
      format: 'nereid-journal',
      version: 1,
      model: 'sums',
      version_of_model: '2',
      config_sha256: 'c0',
      steps: 3,
      sequence_id: { uint64: '18446744073709551615' },
    });
  });

  test('has a large tensor once, before the first step that names it', async () => {
    // One tensor of 20,000 bytes and one of 16,384; what else there is takes less than another of them.
    expect((await written()).byteLength).toBeLessThan(20_000 + 16_384 + 5_000);
  });

  test('keeps a large tensor apart that nobody gave a digest', async () => {
    const large = sampleTensor('LARGE', 16_384);
    const { name, datatype, shape } = large;
    const steps = [0, 1].map((step) => ({
      ...SAMPLE_STEP,
      step,
      request: { ...SAMPLE_STEP.request, inputs: [large] },
    }));
    const file = await written({ ...SAMPLE_RECORDING, steps: 2 }, steps);
    expect(file.byteLength).toBeLessThan(2 * 16_384);
    const read = await readBack([file]);
    expect(read.steps.map(({ request }) => request.inputs)).toEqual([[apart(large)], [apart(large)]]);
    expect(read.steps[0]?.request.inputs[0]).toMatchObject({ name, datatype, shape });
  });

  test('has no data of what is redacted', async () => {
    const secret = { ...apart(sampleTensor('SECRET', 16_384)), redacted: true } as const;
    const step = { ...SAMPLE_STEP, request: { ...SAMPLE_STEP.request, inputs: [secret] } };
    const file = await written({ ...SAMPLE_RECORDING, steps: 1 }, [step]);
    expect(file.byteLength).toBeLessThan(3_000);
    expect(file.includes(secret.digest ?? '')).toBe(false);
  });

  test('ends with the steps that its header says, of a recording that goes on', async () => {
    const recording = { ...SAMPLE_RECORDING, steps: 2 };
    expect(await readBack([await written(recording)])).toEqual({ recording, steps: SAMPLE_STEPS.slice(0, 2) });
  });

  test('of a recording that went away meanwhile is none', async () => {
    const error = "recording 'sums~gw-1:7' went away after step 2 of 4";
    await expect(written({ ...SAMPLE_RECORDING, steps: 4 })).rejects.toThrow(error);
    await expect(written({ ...SAMPLE_RECORDING, steps: 4 }, SAMPLE_STEPS, true)).rejects.toThrow(error);
  });
});

describe('refused is', () => {
  const large = sampleTensor('LARGE', 16_384);
  const two = [stepFrame(0), stepFrame(1)];
  const timed = encodeStepFrame({ ...SAMPLE_STEP, step: 0, receivedMs: 12_345 });
  const line = fileOf(0, []).toString('latin1').split('\n')[0];
  const changed = (from: string, to: string) =>
    Buffer.from(fileOf(2, two).toString('latin1').replace(from, to), 'latin1');

  test.each<[string, Uint8Array, string]>([
    ['nothing', bytes(), 'this is no journal file'],
    ['another file', Buffer.from('PK\x03\x04 and so on\n'), 'this is no journal file'],
    ['another JSON', Buffer.from('[1]\n'), 'this is no journal file'],
    ['a gzip of another file', gzipSync('text\n'), "this is no journal file: give one that 'nereid replay export' has"],
    ['a first line without an end', Buffer.alloc(70_000, ' '), 'this is no journal file'],
    ['a first line that is too long', Buffer.from(`${' '.repeat(65_537)}{}\n`), 'this is no journal file'],
    [
      'a later version',
      changed('"version":1', '"version":2'),
      'version 2 and this build reads version 1: import it with a',
    ],
    ['a header without its model', changed('"model":"m",', ''), "'model' of its header must be a text"],
    ['a header with half a step', changed('"steps":2', '"steps":2.5'), "'steps' of its header must be a whole number"],
    ...['""', '"\\ud800"', JSON.stringify('é'.repeat(128))].map((name): [string, Uint8Array, string] => [
      `the model ${name}`,
      changed('"model":"m"', `"model":${name}`),
      "'model' of its header must be a name of 1 to 255 bytes",
    ]),
    [
      'a time that is none',
      changed('"started_ms":1', '"started_ms":1e999'),
      "'started_ms' of its header must be a number",
    ],
    [
      'a number in a step that is none',
      fileOf(1, [Buffer.from(timed.toString('latin1').replace('12345', '1e999'), 'latin1')]),
      "frame 0: broken frame of a journal: its 'receivedMs' must be a number",
    ],
    [
      'a number of more than 64 bits in a step',
      fileOf(1, [
        Buffer.from(timed.toString('latin1').replace('18446744073709551615', '18446744073709551616'), 'latin1'),
      ]),
      'must be an integer of 64 bits',
    ],
    ['a time without a date', changed('"last_ms":1', '"last_ms":1e17'), "'last_ms' of its header must be a time"],
    [
      'a time without a date in a step',
      fileOf(1, [Buffer.from(timed.toString('latin1').replace('12345', '99e99'), 'latin1')]),
      "its 'receivedMs' must be a time",
    ],
    ['an unknown state', changed('"ended"', '"done"'), "'state' of its header must be open or ended or"],
    ['a sequence without its id', changed('"request"', '"sequence"'), "'sequence_id' of its header must be a text, or"],
    [
      'one that is cut behind its header',
      Buffer.from(`${line}\n`),
      'frame 0: the file is cut before it. Copy it again',
    ],
    ['one that is cut within a frame', fileOf(2, two).subarray(0, -200), 'frame 1: the file is cut within it'],
    ['a step that is missing', fileOf(3, [stepFrame(0), stepFrame(2)]), 'frame 1: step 2 where step 1 of 3 is due'],
    ['fewer steps than it says', fileOf(3, two), 'frame 2: it ends where step 2 of 3 is due'],
    ['more steps than it says', fileOf(1, two), 'frame 1: step 1 where all 1 steps have been'],
    ['a frame that is none', fileOf(1, [Buffer.from('no frame')]), 'frame 0: broken frame of a journal: it is none'],
    ['a frame that is empty', fileOf(1, [bytes()]), 'frame 0: broken frame of a journal: it is none'],
    ['bytes behind its end', fileOf(2, two, bytes(0)), 'frame 2: bytes stand behind the end'],
    ['bytes behind its gzip', Buffer.concat([gzipSync(fileOf(2, two)), bytes(0, 2, 3)]), 'bytes stand behind its gzip'],
    ['many of them', Buffer.concat([gzipSync(fileOf(2, two)), Buffer.alloc(300_000, 7)]), 'its gzip is broken'],
    [
      'a second file behind it',
      Buffer.concat([gzipSync(fileOf(2, two)), gzipSync('more')]),
      'bytes stand behind the end',
    ],
    ['a gzip that is cut', gzipSync(fileOf(2, two)).subarray(0, -9), 'its gzip is cut'],
    [
      'data that are not those of their digest',
      fileOf(0, [encodeTensorFrame('ab'.repeat(32), bytes(1))]),
      `frame 0: the data are not those of ${'ab'.repeat(32)}`,
    ],
    ['a tensor twice', fileOf(0, [tensorFrame(large), tensorFrame(large)]), 'is there a second time'],
    [
      'a change that nothing else shows',
      changed('"VALUE"', '"VOLUE"'),
      'it was changed: its SHA-256 is not the one at its',
    ],
  ])('%s', async (_what, file, why) => {
    const refused = readBack(inChunks(file, 1_000));
    await expect(refused).rejects.toMatchObject({ code: 'INVALID_ARG', field: 'body' });
    await expect(refused).rejects.toThrow(why);
  });

  test.each<[string, Uint8Array, Partial<JournalFileLimits>, string]>([
    ['steps', fileOf(2, two), { steps_max: 1 }, 'too large: it has 2 steps, and 1 are the most; --journal-config sets'],
    ['bytes', fileOf(2, two), { bytes_max: 1_000 }, 'too large: it has over 1000 bytes, as frame 1 says'],
    [
      'bytes in a frame that is not there',
      Buffer.concat([Buffer.from(`${line}\n`), uint32(4_294_967_295)]),
      {},
      'a length of',
    ],
  ])('more %s than a recording may have', async (_what, file, limits, why) => {
    await expect(readBack([file], { ...LIMITS, ...limits })).rejects.toThrow(why);
  });

  test('a gzip bomb, before it is all there', async () => {
    let taken = 0;
    const frame = tensorFrame(sampleTensor('ZERO', 900_000));
    const file = gzipSync(
      Buffer.concat([Buffer.from(`${line}\n`), prefixed(frame), uint32(4e9), Buffer.alloc(50_000_000)]),
    );
    const counted = function* () {
      for (const chunk of inChunks(file, 512)) {
        taken += chunk.byteLength;
        yield chunk;
      }
    };
    await expect(readBack(counted())).rejects.toThrow(
      'it has over 1000000 bytes, as frame 1 says with a length of 4000000000',
    );
    expect(taken).toBeLessThan(file.byteLength / 2);
  });
});

describe('chunks', () => {
  async function* failing(file: Uint8Array) {
    yield file.subarray(0, file.byteLength / 2);
    throw new Error('connection reset');
  }

  test.each([false, true])('that fail, fail the reading as they do (gzip: %s)', async (gzip) => {
    await expect(readBack(failing(await written(SAMPLE_RECORDING, SAMPLE_STEPS, gzip)))).rejects.toThrow(
      'connection reset',
    );
  });

  test.each<[string, boolean, (file: JournalFile) => Promise<void>]>([
    ['that the steps are not wanted', false, ({ close }) => close()],
    ['that the steps are not wanted', true, ({ close }) => close()],
    ['that one of them is enough', true, firstOf],
  ])('are ended by one who says %s (gzip: %s)', async (_what, gzip, leave) => {
    const file = await written(SAMPLE_RECORDING, SAMPLE_STEPS, gzip);
    let ended = false;
    const chunks = (function* () {
      try {
        for (;;) yield* inChunks(file, 64);
      } finally {
        ended = true;
      }
    })();
    await leave(await readJournalFile(chunks, LIMITS));
    expect(ended).toBe(true);
  });

  async function firstOf({ steps }: JournalFile): Promise<void> {
    for await (const _step of steps) return;
  }
});

describe('whatever happens to a file, it is refused or gives the same recording', () => {
  const small: Recording = { ...SAMPLE_RECORDING, steps: 2 };
  const steps = SAMPLE_STEPS.slice(0, 2).map((step) => {
    const inputs = [sampleTensor('A', 40), apart(sampleTensor('B', 50))];
    return { ...step, request: { ...step.request, inputs }, answers: [] };
  });
  const change = fc.oneof(
    fc.record({ cut: fc.nat() }),
    fc.record({ at: fc.nat(), flip: fc.integer({ min: 1, max: 255 }) }),
    fc.record({ at: fc.nat(), insert: fc.uint8Array({ minLength: 1, maxLength: 8 }) }),
  );
  type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

  function changed(file: Buffer, how: Change): Buffer {
    if ('cut' in how) return file.subarray(0, how.cut % file.byteLength);
    const at = how.at % file.byteLength;
    if ('insert' in how) return Buffer.concat([file.subarray(0, at), how.insert, file.subarray(at)]);
    const flipped = Buffer.from(file);
    flipped[at] = (flipped[at] as number) ^ how.flip;
    return flipped;
  }

  test.each([false, true])('gzip: %s', async (gzip) => {
    const file = await written(small, steps, gzip);
    if (gzip) expect(gunzipSync(file).byteLength).toBeGreaterThan(file.byteLength);
    await fc.assert(
      fc.asyncProperty(change, fc.integer({ min: 16, max: 5_000 }), async (how, size) => {
        try {
          expect(await readBack(inChunks(changed(file, how), size))).toEqual({ recording: small, steps });
        } catch (error) {
          if (!(error instanceof NereidError)) throw error;
          expect(error).toMatchObject({ code: 'INVALID_ARG', field: 'body' });
        }
      }),
      { numRuns: 150 },
    );
  });
});

test('what is in a frame crashes nothing, be its SHA-256 right', async () => {
  const frame = encodeStepFrame(SAMPLE_STEPS[1] ?? SAMPLE_STEP);
  // Also such changes as leave its JSON one.
  const change = fc.tuple(fc.nat(), fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('0 1"x-[]{}'))));
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 3 }), async (changes) => {
      const bytes = Buffer.from(frame);
      for (const [at, value] of changes) bytes[at % bytes.byteLength] = value;
      try {
        await readBack([fileOf(2, [stepFrame(0), bytes])]);
      } catch (error) {
        if (!(error instanceof NereidError)) throw error;
        expect(error).toMatchObject({ code: 'INVALID_ARG', field: 'body' });
      }
    }),
    { numRuns: 500 },
  );
});

test.skipIf(spawnSync('python3', ['--version']).status !== 0)(
  'the program of docs/replay-files.md reads a file',
  async () => {
    const page = readFileSync(new URL('../../../docs/replay-files.md', import.meta.url), 'utf8');
    const program = /^```python\n(.*?)^```$/ms.exec(page)?.[1] ?? '';
    const folder = mkdtempSync(join(tmpdir(), 'nereid-journal-'));
    try {
      const file = join(folder, 'a.nrj');
      writeFileSync(file, await written(SAMPLE_RECORDING, SAMPLE_STEPS, true));
      const ends = '\nprint(header["model"], [output["data"] for output in steps[1]["answers"][0]["outputs"][1:]])\n';
      const { stdout, stderr } = spawnSync('python3', ['-c', program + ends, file], { encoding: 'utf8' });
      expect(stdout + stderr).toBe(
        [
          '0 VALUE INT32 [1, 1] 4 bytes',
          '1 LARGE UINT8 [20000] 20000 bytes',
          '1 SECRET BYTES [1] 0 bytes',
          '2 LARGE UINT8 [20000] 20000 bytes',
          '2 OTHER UINT8 [16384] 16384 bytes',
          `sums [b'', b'\\x02\\x00\\x00\\x00\\xff\\x00']\n`,
        ].join('\n'),
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);
