import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { type Answer, infer, type JsonTensor, oneInput } from './requests.ts';

const MODELS = ['minilm', 'minilm_tokenizer', 'minilm_pooling', 'ocr_recogniser', 'ocr_line_image', 'ocr_text'];
const samples = MODELS.every((name) => sampleRepository(name) !== undefined) ? sampleRepository() : undefined;
const FLAGS = ['--model-control-mode=explicit', ...MODELS.map((name) => `--load-model=${name}`)];
const CLS = 101;
const SEP = 102;

const picture = (name: string) => readFileSync(join(ROOT, 'examples', name));
const base64 = (name: string) => picture(name).toString('base64');
const words = (count: number) => Array(count).fill('tree').join(' ');

describe.skipIf(samples === undefined).each(MODES)('the steps of the pipelines, in mode %s', (mode) => {
  let served: Deployment;

  beforeAll(async () => {
    served = await deploy(mode, [samples ?? ''], FLAGS);
  });
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
    const hidden = [...token(1, 0), ...token(5, 8), ...token(100, 100), ...token(9, 9), ...token(9, 9), ...token(9, 9)];
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

  test.each([
    ['a PNG file', 'line.png'],
    ['a JPEG file', 'line.jpg'],
  ])('ocr_line_image, ocr_recogniser, ocr_text: %s is read', async (_what, name) => {
    const image = await ask('ocr_line_image', oneInput('IMAGE', 'BYTES', [1, 1], [base64(name)]));
    const line = image.outputs.get('x');
    expect(line?.shape).toEqual([1, 3, 48, 384]);
    const found = await ask('ocr_recogniser', { inputs: [line] });
    const [probabilities] = found.outputs.values();
    const text = await ask('ocr_text', { inputs: [{ ...probabilities, name: 'PROBABILITIES' }] });
    expect(text.outputs.get('TEXT')?.data).toEqual(['Invoice 2024-0117']);
    expect(text.outputs.get('SCORE')?.data?.[0]).toBeGreaterThan(0.9);
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
});

/** The picture, said to be of another size. */
function huge(): Buffer {
  const bytes = Buffer.from(picture('line.png'));
  bytes.writeUInt32BE(100_000, 16);
  bytes.writeUInt32BE(100_000, 20);
  return bytes;
}
