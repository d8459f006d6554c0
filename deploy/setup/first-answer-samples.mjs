import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CACHE, ROOT } from './checkout.mjs';
import { SetupError } from './command.mjs';
import { bestLabel, magikaFeatures } from './magika-features.mjs';
import { sampleRepository } from './samples.mjs';

const EXAMPLE_FILES = ['README.md', 'package.json'];
const EMBEDDING_SIZE = 384;
const SIMILAR_MIN = 0.6;
const UNRELATED_MAX = 0.2;
const SPEECH_MIN = 0.5;
const SILENCE_SAMPLES = 512;
const LINE_TEXT = 'Invoice 2024-0117';
const PAGE_LINES = 6;

/** Sentences as minilm's tokenizer gives them. */
const NAPS = {
  text: 'a cat is sleeping on the sofa',
  ids: [101, 1037, 4937, 2003, 5777, 2006, 1996, 10682, 102],
};
const COUCH = { text: 'the cat naps on the couch', ids: [101, 1996, 4937, 18996, 2015, 2006, 1996, 6411, 102] };
const RATES = {
  text: 'the central bank raised interest rates today',
  ids: [101, 1996, 2430, 2924, 2992, 3037, 6165, 2651, 102],
};

/**
 * One inference on each downloaded sample: takes `infer` (a model's name and a request to its outputs by name) and the
 * server's address, gives the lines to print. A wrong answer throws.
 */
export const ASK_SAMPLE = {
  magika: askMagika,
  minilm: askMinilm,
  minilm_embedding: askEmbedding,
  ocr_line: askLine,
  ocr_page: askPage,
  silero_vad: askSilero,
};

async function askMagika(infer, url) {
  const example = EXAMPLE_FILES.find((name) => existsSync(join(ROOT, name)));
  const prepared = magikaFeatures(readFileSync(join(ROOT, example)));
  if (prepared.features === undefined) return [];
  const tensor = { name: 'bytes', shape: [1, prepared.features.length], datatype: 'INT32' };
  const request = { inputs: [{ ...tensor, data: Array.from(prepared.features) }] };
  const outputs = await infer('magika', request);
  const labels = readFileSync(join(sampleRepository('magika'), 'magika', 'labels.txt'), 'utf8')
    .trimEnd()
    .split('\n');
  const { label, score } = bestLabel(outputs.get('target_label')?.data ?? [], labels);
  if (label === undefined || !(score > 0 && score <= 1.001)) throw new SetupError('magika gave no label');
  return [
    `magika: ${example} is ${label} (score ${score.toFixed(3)}, label ${labels.indexOf(label)} of labels.txt); again:`,
    curlWithFile(url, 'magika', request),
  ];
}

async function askMinilm(infer, url) {
  const sentences = [NAPS, COUCH, RATES];
  const length = NAPS.ids.length;
  const tensor = (name, data) => ({ name, shape: [sentences.length, length], datatype: 'INT64', data });
  const ids = sentences.flatMap((sentence) => sentence.ids);
  const inputs = [
    tensor('input_ids', ids),
    tensor(
      'attention_mask',
      ids.map(() => 1),
    ),
    tensor(
      'token_type_ids',
      ids.map(() => 0),
    ),
  ];
  const outputs = await infer('minilm', { inputs });
  const hidden = outputs.get('last_hidden_state')?.data ?? [];
  const [one, similar, unrelated] = sentences.map((_, row) => meanOverTokens(hidden, row, length));
  const near = cosine(one, similar);
  const far = cosine(one, unrelated);
  if (!(near > SIMILAR_MIN && far < UNRELATED_MAX)) throw new SetupError(`minilm gave cosines ${near} and ${far}`);
  return [
    `minilm: "${NAPS.text}" is near "${COUCH.text}" (${near.toFixed(2)}), not "${RATES.text}" (${far.toFixed(2)}); again:`,
    curlWithFile(url, 'minilm', { inputs }),
  ];
}

/** Texts in, vectors out: tokenizer, minilm and pooling are steps of an ensemble. */
async function askEmbedding(infer, url) {
  const texts = [NAPS, COUCH, RATES].map(({ text }) => text);
  const asking = (data) => ({ inputs: [{ name: 'TEXT', shape: [data.length, 1], datatype: 'BYTES', data }] });
  const outputs = await infer('minilm_embedding', asking(texts));
  const all = outputs.get('EMBEDDING')?.data ?? [];
  const [one, similar, unrelated] = texts.map((_, row) => all.slice(row * EMBEDDING_SIZE, (row + 1) * EMBEDDING_SIZE));
  const near = cosine(one, similar);
  const far = cosine(one, unrelated);
  if (!(near > SIMILAR_MIN && far < UNRELATED_MAX))
    throw new SetupError(`minilm_embedding gave cosines ${near}, ${far}`);
  return [
    `minilm_embedding: the same from texts (${near.toFixed(2)} and ${far.toFixed(2)}); one vector:`,
    `  curl -s ${url}/v2/models/minilm_embedding/infer -d '${JSON.stringify(asking(texts.slice(0, 1)))}'`,
    `  a search by meaning: node examples/search.mjs ${url}`,
  ];
}

async function askLine(infer, url) {
  const request = { inputs: [{ ...pictureOf('line.png'), shape: [1, 1] }] };
  const text = (await infer('ocr_line', request)).get('TEXT')?.data?.[0];
  if (text !== LINE_TEXT) throw new SetupError(`ocr_line read "${text}"`);
  return [`ocr_line: examples/line.png says "${text}"; again:`, curlWithFile(url, 'ocr_line', request)];
}

/** A model that calls others, as many times as it finds lines. */
async function askPage(infer, url) {
  const lines = (await infer('ocr_page', { inputs: [pictureOf('page.png')] })).get('TEXT')?.data ?? [];
  if (lines.length !== PAGE_LINES || lines[0] !== LINE_TEXT) {
    throw new SetupError(`ocr_page read ${JSON.stringify(lines)}`);
  }
  return [
    `ocr_page: examples/page.png has ${lines.length} lines, from "${lines[0]}" to "${lines.at(-1)}"; again:`,
    `  node examples/read-page.mjs ${url}`,
  ];
}

/** A file in base64: JSON holds no bytes. */
function pictureOf(name) {
  const data = [readFileSync(join(ROOT, 'examples', name)).toString('base64')];
  return { name: 'IMAGE', shape: [1], datatype: 'BYTES', data };
}

/** A sequence of one step. */
async function askSilero(infer, url) {
  const audio = { name: 'audio', shape: [1, SILENCE_SAMPLES], datatype: 'FP32', data: Array(SILENCE_SAMPLES).fill(0) };
  const parameters = { sequence_id: 1, sequence_start: true, sequence_end: true };
  const request = { parameters, inputs: [audio] };
  const outputs = await infer('silero_vad', request);
  const [probability] = outputs.get('output')?.data ?? [];
  if (!(probability >= 0 && probability < SPEECH_MIN)) throw new SetupError(`silero_vad hears speech in silence`);
  return [
    `silero_vad: silence is speech with probability ${probability.toFixed(3)}; again:`,
    curlWithFile(url, 'silero_vad', request),
    `  a whole file, as a sequence: node examples/speech-http.mjs ${url}`,
  ];
}

/** The request goes into a file: it is too long for a line. */
function curlWithFile(url, model, request) {
  const file = join(CACHE, `${model}-request.json`);
  writeFileSync(file, JSON.stringify(request));
  return `  curl -s ${url}/v2/models/${model}/infer -d @${relative(ROOT, file)}`;
}

function meanOverTokens(hidden, row, length) {
  const start = row * length * EMBEDDING_SIZE;
  const sums = Array(EMBEDDING_SIZE).fill(0);
  for (let index = 0; index < length * EMBEDDING_SIZE; index += 1)
    sums[index % EMBEDDING_SIZE] += hidden[start + index];
  return sums.map((sum) => sum / length);
}

function cosine(left, right) {
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}
