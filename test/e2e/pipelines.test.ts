import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MODEL_REPOSITORY, ROOT, VENV } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type Answer, infer, type JsonTensor, oneInput } from './requests.ts';
import { sentences } from './sentences.ts';

const MODELS = [
  ...['minilm', 'minilm_tokenizer', 'minilm_pooling', 'minilm_embedding'],
  ...['ocr_detector', 'ocr_recogniser', 'ocr_line_image', 'ocr_text', 'ocr_line', 'ocr_page'],
  ...['redact', 'redact_twice'],
];
const isThere = (name: string) => name.startsWith('redact') || sampleRepository(name) !== undefined;
const samples = MODELS.every(isThere) ? sampleRepository() : undefined;
const FLAGS = ['--model-control-mode=explicit', ...MODELS.map((name) => `--load-model=${name}`)];
const CLS = 101;
const SEP = 102;

const picture = (name: string) => readFileSync(join(ROOT, 'examples', name));
const base64 = (name: string) => picture(name).toString('base64');
const words = (count: number) => Array(count).fill('tree').join(' ');
/** White, 32 by 32. */
const BLANK = 'iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQAAAABbAUdZAAAAEUlEQVR42mP8z8DAwMQwaAkAswEBP25AfJYAAAAASUVORK5CYII=';
const PYTHON = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');

/** 1,000 are the bar (docs/testing.md); they take most of a minute of a core for each mode. */
const SENTENCES = sentences(Number(process.env.NEREID_SENTENCES ?? 64));
const ALL_LIMIT_MS = 600_000;
const BATCH = 8;
const IN_FLIGHT = 4;
/** Ten models start slowly where the machine is busy. */
const START_LIMIT_MS = 120_000;
const WIDTH = 384;
const LENGTHS = [16, 32, 64, 128];
/** Rows of a batch may be computed by another kernel than one row, which adds in another order: rounding. */
const BATCH_TOLERANCE = 1e-6;

// What examples/README.md says that the examples print.
const FOUND = [
  '0.48 The ferry to the island sails every two hours.',
  '0.22 Bicycles may be taken on trains at weekends.',
  '0.21 The museum opens at nine and closes at six.',
];
const LINE = ['Invoice 2024-0117 (0.98)'];
const PAGE = [
  '40,42 352x34 Invoice 2024-0117',
  '37,129 281x34 Twelve boxes of apples',
  '557,128 75x32 36.00',
  '39,199 355x32 Delivery to Harbour Street 5',
  '556,199 62x31 5.50',
  '38,329 285x32 Total to pay: 41.50 EUR',
];

/** The embeddings of the sentences by hand: each alone, padded as the pipeline pads it. */
async function byHand(): Promise<readonly Float32Array[]> {
  const folder = join(samples ?? '', 'minilm');
  const tokenizer = new Tokenizer(JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8')), {});
  const session = await InferenceSession.create(join(folder, '1', 'model.onnx'), { intraOpNumThreads: 1 });
  const found: Float32Array[] = [];
  for (const text of SENTENCES) {
    const { ids } = tokenizer.encode(text);
    const length = LENGTHS.find((size) => size >= ids.length) ?? Number.NaN;
    const tensor = (valueAt: (index: number) => number) =>
      new Tensor(
        'int64',
        BigInt64Array.from({ length }, (_, index) => BigInt(valueAt(index))),
        [1, length],
      );
    const outputs = await session.run({
      input_ids: tensor((index) => ids[index] ?? 0),
      attention_mask: tensor((index) => (index < ids.length ? 1 : 0)),
      token_type_ids: tensor(() => 0),
    });
    found.push(meanOfLength1(outputs.last_hidden_state?.data as Float32Array, ids.length));
  }
  await session.release();
  return found;
}

function meanOfLength1(hidden: Float32Array, count: number): Float32Array {
  const mean = Array.from({ length: WIDTH }, (_, column) => {
    let sum = 0;
    for (let token = 0; token < count; token += 1) sum += hidden[token * WIDTH + column] ?? Number.NaN;
    return sum / count;
  });
  const norm = Math.sqrt(mean.reduce((sum, value) => sum + value * value, 0));
  return Float32Array.from(mean, (value) => value / norm);
}

/** A repository with the ensemble that docs/pipelines.md shows. */
function writtenInDocs(): string {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-pipelines-'));
  const page = readFileSync(join(ROOT, 'docs', 'pipelines.md'), 'utf8');
  const [, config = ''] = /```protobuf\n(name: "redact_twice"\n.*?)```/s.exec(page) ?? [];
  mkdirSync(join(folder, 'redact_twice', '1'), { recursive: true });
  writeFileSync(join(folder, 'redact_twice', 'config.pbtxt'), config);
  return folder;
}

/** The lines that an example prints. */
async function printed(program: string, name: string, address: string): Promise<readonly string[]> {
  const { code, output } = await runCommand(program, [join(ROOT, 'examples', name), address]);
  expect(code, output).toBe(0);
  return output.trimEnd().split('\n');
}

describe.skipIf(samples === undefined)('the pipelines (samples that are downloaded)', () => {
  let expected: readonly Float32Array[];
  let folder: string;

  beforeAll(async () => {
    folder = writtenInDocs();
    expected = await byHand();
  }, ALL_LIMIT_MS);
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  describe.each(MODES)('in mode %s', (mode) => {
    let served: Deployment;

    beforeAll(async () => {
      served = await deploy(mode, [samples ?? '', MODEL_REPOSITORY, folder], FLAGS);
    }, START_LIMIT_MS);
    afterAll(async () => {
      await served.stop();
    });

    const ask = (model: string, body: object | string): Promise<Answer> =>
      infer(served.http, model, typeof body === 'string' ? body : JSON.stringify(body));

    const tokens = (texts: readonly string[], parameters: object = {}) => {
      const TEXT = { name: 'TEXT', shape: [texts.length, 1], datatype: 'BYTES', data: texts };
      return ask('minilm_tokenizer', { parameters, inputs: [TEXT] });
    };

    // A word is a token, two more frame the text.
    test.each([
      ['no text', '', {}, 16, 2],
      ['one that just fits', words(14), {}, 16, 16],
      ['one more word', words(15), {}, 32, 17],
      ['the next lengths', words(31), {}, 64, 33],
      ['the greatest', words(126), {}, 128, 128],
      ['a longer one, cut', words(500), {}, 128, 128],
      ['pad_to, longer than needed', words(3), { pad_to: 64 }, 64, 5],
      ['pad_to, shorter than needed', words(100), { pad_to: 16 }, 16, 16],
      ['pad_to as a text', words(3), { pad_to: '32' }, 32, 5],
    ])('minilm_tokenizer: %s', async (_what, text, parameters, length, count) => {
      const answer = await tokens([text], parameters);
      expect(answer.error).toBeUndefined();
      const dataOf = (name: string) => answer.outputs.get(name)?.data as readonly number[];
      expect(answer.outputs.get('input_ids')?.shape).toEqual([1, length]);
      expect(dataOf('attention_mask')).toEqual(Array.from({ length }, (_, index) => (index < count ? 1 : 0)));
      expect(dataOf('token_type_ids')).toEqual(Array(length).fill(0));
      const ids = dataOf('input_ids');
      expect([ids[0], ids[count - 1], ...ids.slice(count)]).toEqual([CLS, SEP, ...Array(length - count).fill(0)]);
    });

    test('minilm_tokenizer: the texts of a request have the length that the longest needs', async () => {
      const { outputs } = await tokens([words(2), words(20)]);
      expect(outputs.get('input_ids')?.shape).toEqual([2, 32]);
      expect(outputs.get('attention_mask')?.data).toEqual([
        ...Array.from({ length: 32 }, (_, index) => (index < 4 ? 1 : 0)),
        ...Array.from({ length: 32 }, (_, index) => (index < 22 ? 1 : 0)),
      ]);
    });

    test('minilm_tokenizer: a length that is not offered is refused', async () => {
      const { status, error } = await tokens(['x'], { pad_to: 48 });
      expect([status, error]).toEqual([400, "parameter 'pad_to' is 48: it is one of 16, 32, 64, 128"]);
    });

    test('minilm_pooling: the mean without padding, of length 1', async () => {
      const token = (first: number, second: number) => [first, second, ...Array(382).fill(0)];
      const hidden = [
        ...token(1, 0),
        ...token(5, 8),
        ...token(100, 100),
        ...token(9, 9),
        ...token(9, 9),
        ...token(9, 9),
      ];
      const tensors: JsonTensor[] = [
        { name: 'last_hidden_state', shape: [2, 3, 384], datatype: 'FP32', data: hidden },
        { name: 'attention_mask', shape: [2, 3], datatype: 'INT64', data: [1, 1, 0, 0, 0, 0] },
      ];
      const { outputs } = await ask('minilm_pooling', { inputs: tensors });
      expect(outputs.get('EMBEDDING')?.shape).toEqual([2, 384]);
      expect(outputs.get('EMBEDDING')?.data).toEqual([
        ...token(Math.fround(0.6), Math.fround(0.8)),
        ...Array(384).fill(0),
      ]);
    });

    async function embed(texts: readonly string[]): Promise<Float32Array[]> {
      const answer = await ask('minilm_embedding', oneInput('TEXT', 'BYTES', [texts.length, 1], texts));
      expect(answer.error).toBeUndefined();
      const output = answer.outputs.get('EMBEDDING');
      expect(output?.shape).toEqual([texts.length, WIDTH]);
      const all = Float32Array.from((output?.data ?? []) as number[]);
      return texts.map((_, row) => all.slice(row * WIDTH, (row + 1) * WIDTH));
    }

    test(
      'minilm_embedding: one sentence after the other, as by hand to the last bit',
      async () => {
        // Not all of them where they are few: this way nothing shares a batch.
        const alone = SENTENCES.length > 200 ? SENTENCES : SENTENCES.slice(0, 16);
        for (const [index, text] of alone.entries()) expect((await embed([text]))[0], text).toEqual(expected[index]);
      },
      ALL_LIMIT_MS,
    );

    test(
      'minilm_embedding: sentences in batches, several at a time, as by hand',
      async () => {
        const found: Float32Array[] = [];
        const starts = Array.from(
          { length: Math.ceil(SENTENCES.length / BATCH) },
          (_, index) => index * BATCH,
        ).values();
        const askInTurn = async () => {
          for (const start of starts) {
            const vectors = await embed(SENTENCES.slice(start, start + BATCH));
            for (const [row, vector] of vectors.entries()) found[start + row] = vector;
          }
        };
        await Promise.all(Array.from({ length: IN_FLIGHT }, askInTurn));
        const worst = found.map((vector, index) =>
          vector.reduce(
            (most, value, at) => Math.max(most, Math.abs(value - (expected[index]?.[at] ?? Number.NaN))),
            0,
          ),
        );
        expect(Math.max(...worst)).toBeLessThanOrEqual(BATCH_TOLERANCE);
        expect(found).toHaveLength(SENTENCES.length);
      },
      ALL_LIMIT_MS,
    );

    test('minilm_embedding: pad_to reaches the tokenizer', async () => {
      const request = (pad_to: number) => {
        const TEXT = { name: 'TEXT', shape: [1, 1], datatype: 'BYTES', data: [words(100)] };
        return ask('minilm_embedding', { parameters: { pad_to }, inputs: [TEXT] });
      };
      const [cut, whole, refused] = await Promise.all([request(16), request(128), request(48)]);
      expect(cut.outputs.get('EMBEDDING')?.data).not.toEqual(whole.outputs.get('EMBEDDING')?.data);
      expect(refused.status).toBe(400);
      expect(refused.error).toContain("parameter 'pad_to' is 48");
    });

    test('ocr_line: pictures of several formats in one request', async () => {
      const body = oneInput('IMAGE', 'BYTES', [2, 1], ['line.png', 'line.jpg'].map(base64));
      const { outputs } = await ask('ocr_line', body);
      expect(outputs.get('TEXT')).toMatchObject({ shape: [2, 1], data: ['Invoice 2024-0117', 'Invoice 2024-0117'] });
      for (const score of outputs.get('SCORE')?.data ?? []) expect(score).toBeGreaterThan(0.9);
    });

    test('ocr_page: a page without text has no lines', async () => {
      const { outputs } = await ask('ocr_page', oneInput('IMAGE', 'BYTES', [1], [BLANK]));
      const shapes = [...outputs.values()].map(({ name, shape }) => [name, shape]);
      expect(Object.fromEntries(shapes)).toEqual({ TEXT: [0], SCORE: [0], BOX: [0, 4] });
    });

    test.each([
      ['no picture', Buffer.from('GIF89a'), 'IMAGE is neither a PNG nor a JPEG file'],
      ['half a PNG', picture('line.png').subarray(0, 600), /^IMAGE is no PNG file that can be read: /],
      ['half a JPEG', picture('line.jpg').subarray(0, 600), /^IMAGE is no JPEG file that can be read: /],
      ['a signature alone', picture('line.png').subarray(0, 8), /^IMAGE is no PNG file that can be read: /],
      ['a PNG of 10 gigapixels', huge(), 'IMAGE is no PNG file that can be read: it has more than 25 megapixels'],
    ])('ocr_line_image: %s is refused', async (_what, file, text) => {
      const body = oneInput('IMAGE', 'BYTES', [1, 1], [file.toString('base64')]);
      const { status, error } = await ask('ocr_line_image', body);
      expect([status, error]).toEqual([400, typeof text === 'string' ? text : expect.stringMatching(text)]);
    });

    test('redact_twice: the ensemble of docs/pipelines.md', async () => {
      const { outputs } = await ask('redact_twice', oneInput('TEXT', 'BYTES', [1, 1], ['write to ada@example.org']));
      const found = [...outputs.values()].map(({ name, data }) => [name, data]);
      expect(Object.fromEntries(found)).toEqual({ CLEAN: ['write to [email]'], FOUND: [1], LEFT: [0] });
    });

    describe('the examples', () => {
      const host = () => new URL(served.http).host;

      test.each([
        ['search.mjs', FOUND],
        ['read-line.mjs', LINE],
        ['read-page.mjs', PAGE],
      ])('%s', async (name, lines) => {
        expect(await printed(process.execPath, name, served.http)).toEqual(lines);
      });

      test.skipIf(!existsSync(PYTHON)).each([
        ['search.py', FOUND],
        ['read_line.py', LINE],
        ['read_page.py', PAGE],
      ])("%s (with Triton's client, which npm test installs)", async (name, lines) => {
        expect(await printed(PYTHON, name, host())).toEqual(lines);
      });
    });
  });
});

/** The picture, said to be of another size. */
function huge(): Buffer {
  const bytes = Buffer.from(picture('line.png'));
  bytes.writeUInt32BE(100_000, 16);
  bytes.writeUInt32BE(100_000, 20);
  return bytes;
}
