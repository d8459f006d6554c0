// Texts to token ids for minilm. TEXT: BYTES [n, 1], UTF-8.
// input_ids, attention_mask, token_type_ids: INT64 [n, length], where length is the smallest of the model's lengths
// that holds the longest text of the request: requests of few lengths share batches of minilm. A text that is longer
// than the greatest length is cut there.
//
// The lengths stand in the configuration's parameter `pad_to`; a request's own parameter `pad_to` chooses one of them.
import { readFile } from 'node:fs/promises';
import { Tokenizer } from '@huggingface/tokenizers';

/** The model knows no more positions. */
const LENGTH_MAX = 512;
/** What follows is not looked at: no real text needs more for its first tokens, and tokens take time to find. */
const TEXT_CHARS_MAX = 20_000;
const END = '[SEP]';

const decoder = new TextDecoder();
let tokenizer;
let endId;
let lengths;

export async function initialize({ modelConfig }) {
  const file = new URL('../tokenizer.json', import.meta.url);
  tokenizer = new Tokenizer(JSON.parse(await readFile(file, 'utf8')), {});
  endId = tokenizer.token_to_id(END);
  lengths = readLengths(modelConfig.parameters?.pad_to?.string_value ?? '');
}

function readLengths(text) {
  const found = text.split(',').map(Number);
  const isLength = (value, index) => Number.isInteger(value) && value >= 2 && value > (found[index - 1] ?? 0);
  if (found.every(isLength) && found.at(-1) <= LENGTH_MAX) return found;
  throw new Error(
    `parameter 'pad_to' is '${text}': give ascending numbers from 2 to ${LENGTH_MAX}, as in 16,32,64,128`,
  );
}

/** One response per request, in order. A request may itself be a batch. */
export function execute(requests) {
  return requests.map((request) => {
    const texts = request.inputs.get('TEXT').data;
    const allowed = allowedLengths(request.parameters.pad_to);
    if (allowed instanceof Error) return allowed;
    return { outputs: padded(texts.map(tokenIds), allowed) };
  });
}

function allowedLengths(asked) {
  if (asked === undefined) return lengths;
  const length = Number(asked);
  if (lengths.includes(length)) return [length];
  const error = new Error(`parameter 'pad_to' is ${asked}: it is one of ${lengths.join(', ')}`);
  return Object.assign(error, { code: 'INVALID_ARG' });
}

const tokenIds = (bytes) => tokenizer.encode(decoder.decode(bytes).slice(0, TEXT_CHARS_MAX)).ids;

/** All rows in the smallest length that holds the longest, or cut at the greatest; a row that is cut keeps its end. */
function padded(rows, allowed) {
  const longest = Math.max(0, ...rows.map((row) => row.length));
  const length = allowed.find((size) => size >= longest) ?? allowed.at(-1);
  const tensor = () => ({
    datatype: 'INT64',
    shape: [rows.length, length],
    data: new BigInt64Array(rows.length * length),
  });
  const ids = tensor();
  const mask = tensor();
  for (const [index, row] of rows.entries()) {
    const kept = row.length > length ? [...row.slice(0, length - 1), endId] : row;
    ids.data.set(kept.map(BigInt), index * length);
    mask.data.fill(1n, index * length, index * length + kept.length);
  }
  return { input_ids: ids, attention_mask: mask, token_type_ids: tensor() };
}
