import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '@huggingface/tokenizers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sampleRepository } from '../../deploy/setup/samples.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { infer, type JsonTensor } from './requests.ts';

const samples = sampleRepository('minilm');
const WIDTH = 384;
const SIMILAR_MIN = 0.6;
const UNRELATED_MAX = 0.2;
/** How far an embedding may differ by what else was in its batch: rounding. */
const BATCH_TOLERANCE = 1e-6;

/** Pairs that mean the same; the first sentence of each has nothing to do with that of any other. */
const PAIRS: readonly (readonly [string, string])[] = [
  ['A cat is sleeping on the sofa.', 'The cat naps on the couch.'],
  ['The central bank raised interest rates today.', 'Interest rates were increased by the central bank.'],
  ['How do I bake sourdough bread at home?', 'What is a recipe for homemade sourdough bread?'],
];

interface Tokens {
  readonly ids: readonly number[];
  readonly mask: readonly number[];
}

describe.skipIf(samples === undefined).each(MODES)('minilm (a sample that is downloaded), in mode %s', (mode) => {
  let served: Deployment;
  let tokenizer: Tokenizer;

  beforeAll(async () => {
    served = await deploy(mode, [samples ?? ''], ['--model-control-mode=explicit', '--load-model=minilm']);
    tokenizer = new Tokenizer(JSON.parse(readFileSync(join(samples ?? '', 'minilm', 'tokenizer.json'), 'utf8')), {});
  });
  afterAll(async () => {
    await served.stop();
  });

  /** One embedding per text: the mean over its tokens, without those that pad it to the batch's longest. */
  async function embed(texts: readonly string[]): Promise<number[][]> {
    const tokens = padded(texts.map((text) => tokenizer.encode(text).ids));
    const shape = [texts.length, tokens[0]?.ids.length ?? 0];
    const tensor = (name: string, data: readonly number[]): JsonTensor => ({ name, shape, datatype: 'INT64', data });
    const ids = tokens.flatMap((row) => row.ids);
    const inputs = [
      tensor('input_ids', ids),
      tensor(
        'attention_mask',
        tokens.flatMap((row) => row.mask),
      ),
      tensor('token_type_ids', Array(ids.length).fill(0)),
    ];
    const answer = await infer(served.http, 'minilm', JSON.stringify({ inputs }));
    expect(answer.error).toBeUndefined();
    const output = answer.outputs.get('last_hidden_state');
    expect(output?.shape).toEqual([...shape, WIDTH]);
    return tokens.map(({ mask }, row) => meanOfTokens((output?.data ?? []) as number[], row, mask));
  }

  test('the tokenizer gives the ids that the model was trained with', () => {
    expect(tokenizer.encode('Hello, world!').ids).toEqual([101, 7592, 1010, 2088, 999, 102]);
  });

  test('similar sentences are near, unrelated ones far', async () => {
    const singly = await Promise.all(PAIRS.flat().map(async (text) => (await embed([text]))[0] ?? []));
    const first = singly.filter((_, index) => index % 2 === 0);
    const second = singly.filter((_, index) => index % 2 === 1);
    for (const [index, one] of first.entries()) {
      expect(cosine(one, second[index] ?? []), PAIRS[index]?.join(' / ')).toBeGreaterThan(SIMILAR_MIN);
      for (const [other, two] of first.entries()) {
        if (other === index) continue;
        expect(cosine(one, two), `${PAIRS[index]?.[0]} ${PAIRS[other]?.[0]}`).toBeLessThan(UNRELATED_MAX);
      }
    }
  });

  test('what else is in the batch, and the padding to its longest text, do not change an embedding', async () => {
    const texts = PAIRS.flat();
    expect(new Set(texts.map((text) => tokenizer.encode(text).ids.length)).size).toBeGreaterThan(2);
    const [together, ...alone] = await Promise.all([embed(texts), ...texts.map((text) => embed([text]))]);
    for (const [index, [embedding = []]] of alone.entries()) {
      expect(cosine(together[index] ?? [], embedding), texts[index]).toBeGreaterThan(1 - BATCH_TOLERANCE);
    }
  });
});

function padded(rows: readonly (readonly number[])[]): Tokens[] {
  const length = Math.max(...rows.map((row) => row.length));
  return rows.map((row) => ({
    ids: [...row, ...Array(length - row.length).fill(0)],
    mask: Array.from({ length }, (_, index) => (index < row.length ? 1 : 0)),
  }));
}

function meanOfTokens(hidden: readonly number[], row: number, mask: readonly number[]): number[] {
  const count = mask.reduce((sum, bit) => sum + bit, 0);
  return Array.from({ length: WIDTH }, (_, column) => {
    const at = (token: number) => hidden[(row * mask.length + token) * WIDTH + column] ?? 0;
    return mask.reduce((sum, bit, token) => sum + bit * at(token), 0) / count;
  });
}

function cosine(left: readonly number[], right: readonly number[]): number {
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
  return dot(left, right) / Math.sqrt(dot(left, left) * dot(right, right));
}
