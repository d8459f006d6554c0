// Which of some sentences answer a question, by their meaning:
//   node examples/search.mjs [URL [QUESTION]]
const [url = 'http://localhost:8000', question = 'When does the boat leave?'] = process.argv.slice(2);

const SENTENCES = [
  'Our bakery sells sourdough bread and rye rolls.',
  'The ferry to the island sails every two hours.',
  'Cats and dogs are examined without an appointment.',
  'The central bank raised interest rates again.',
  'Bicycles may be taken on trains at weekends.',
  'The museum opens at nine and closes at six.',
];

/** One vector of length 1 for each text; at most 8 texts at a time. */
async function embed(texts) {
  const response = await fetch(`${url}/v2/models/minilm_embedding/infer`, {
    method: 'POST',
    body: JSON.stringify({ inputs: [{ name: 'TEXT', datatype: 'BYTES', shape: [texts.length, 1], data: texts }] }),
  });
  const { error, outputs } = await response.json();
  if (error !== undefined) throw new Error(error);
  const [{ shape, data }] = outputs;
  return texts.map((_, row) => data.slice(row * shape[1], (row + 1) * shape[1]));
}

/** Of vectors of length 1 it is their cosine: 1 for the same meaning, about 0 for nothing in common. */
const dot = (left, right) => left.reduce((sum, value, index) => sum + value * right[index], 0);

const [[asked], vectors] = await Promise.all([embed([question]), embed(SENTENCES)]);
const ranked = SENTENCES.map((sentence, index) => ({ sentence, nearness: dot(asked, vectors[index]) }));
ranked.sort((one, other) => other.nearness - one.nearness);
for (const { sentence, nearness } of ranked.slice(0, 3)) console.log(nearness.toFixed(2), sentence);
