import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT, VENV } from '../../deploy/setup/checkout.mjs';
import { runCommand } from '../../deploy/setup/command.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type Answer, infer, type JsonTensor, oneInput } from './requests.ts';

const MODELS = [
  ...['minilm', 'minilm_tokenizer', 'minilm_pooling'],
  ...['ocr_detector', 'ocr_recogniser', 'ocr_line_image', 'ocr_text', 'ocr_page'],
];
const isThere = (name: string) => sampleRepository(name) !== undefined;
const samples = MODELS.every(isThere) ? sampleRepository() : undefined;
const FLAGS = ['--model-control-mode=explicit', ...MODELS.map((name) => `--load-model=${name}`)];
const CLS = 101;
const SEP = 102;

const picture = (name: string) => readFileSync(join(ROOT, 'examples', name));
const words = (count: number) => Array(count).fill('tree').join(' ');
/** White, 32 by 32. */
const BLANK = 'iVBORw0KGgoAAAANSUhEUgAAACAAAAAgAQAAAABbAUdZAAAAEUlEQVR42mP8z8DAwMQwaAkAswEBP25AfJYAAAAASUVORK5CYII=';
const PYTHON = join(process.env.ORACLE_VENV ?? VENV, 'bin', 'python');

/** Ten models start slowly where the machine is busy. */
const START_LIMIT_MS = 120_000;

// What examples/README.md says that the examples print.
const PAGE = [
  '40,42 352x34 Invoice 2024-0117',
  '37,129 281x34 Twelve boxes of apples',
  '557,128 75x32 36.00',
  '39,199 355x32 Delivery to Harbour Street 5',
  '556,199 62x31 5.50',
  '38,329 285x32 Total to pay: 41.50 EUR',
];

/** The lines that an example prints. */
async function printed(program: string, name: string, address: string): Promise<readonly string[]> {
  const { code, output } = await runCommand(program, [join(ROOT, 'examples', name), address]);
  expect(code, output).toBe(0);
  return output.trimEnd().split('\n');
}

describe.skipIf(samples === undefined)('the pipelines (samples that are downloaded)', () => {
  describe.each(MODES)('in mode %s', (mode) => {
    let served: Deployment;

    beforeAll(async () => {
      served = await deploy(mode, [samples ?? ''], FLAGS);
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

    describe('the examples', () => {
      const host = () => new URL(served.http).host;

      test.each([['read-page.mjs', PAGE]])('%s', async (name, lines) => {
        expect(await printed(process.execPath, name, served.http)).toEqual(lines);
      });

      test.skipIf(!existsSync(PYTHON)).each([['read_page.py', PAGE]])(
        "%s (with Triton's client, which npm test installs)",
        async (name, lines) => {
          expect(await printed(PYTHON, name, host())).toEqual(lines);
        },
      );
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
