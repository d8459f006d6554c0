// A text's vector from those of its tokens: their mean, without the tokens that only pad, scaled to length 1.
// last_hidden_state: FP32 [n, length, 384]; attention_mask: INT64 [n, length]; EMBEDDING: FP32 [n, 384].
// Sums are taken in double precision, token after token.

/** One response per request, in order. A request may itself be a batch. */
export function execute(requests) {
  return requests.map(({ inputs }) => {
    const { shape, data } = inputs.get('last_hidden_state');
    const mask = inputs.get('attention_mask');
    const [rows, length, width] = shape;
    if (mask.shape[1] !== length) {
      const error = new Error(`attention_mask is for ${mask.shape[1]} tokens, last_hidden_state has ${length}`);
      return Object.assign(error, { code: 'INVALID_ARG' });
    }
    const embeddings = new Float32Array(rows * width);
    for (let row = 0; row < rows; row += 1) {
      const tokens = data.subarray(row * length * width, (row + 1) * length * width);
      const bits = mask.data.subarray(row * length, (row + 1) * length);
      embeddings.set(unit(meanOf(tokens, bits, width)), row * width);
    }
    return { outputs: { EMBEDDING: { datatype: 'FP32', shape: [rows, width], data: embeddings } } };
  });
}

function meanOf(tokens, bits, width) {
  const sums = new Float64Array(width);
  let count = 0;
  for (const [token, bit] of bits.entries()) {
    if (bit === 0n) continue;
    count += 1;
    for (let column = 0; column < width; column += 1) sums[column] += tokens[token * width + column];
  }
  return sums.map((sum) => sum / Math.max(1, count));
}

function unit(vector) {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return norm === 0 ? vector : vector.map((value) => value / norm);
}
