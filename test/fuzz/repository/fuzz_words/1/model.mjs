/** So many answers at the most, whatever is asked for. */
const ANSWERS_MAX = 100;

async function* answers({ inputs, signal }) {
  const [text] = inputs.get('TEXT').data;
  const [count] = inputs.get('COUNT').data;
  for (let index = 0; index < Math.min(count, ANSWERS_MAX) && !signal.aborted; index += 1) {
    yield {
      outputs: {
        WORD: { datatype: 'BYTES', shape: [1], data: [text] },
        INDEX: { datatype: 'INT32', shape: [1], data: Int32Array.of(index) },
      },
    };
  }
}

export const execute = (requests) => requests.map(answers);
