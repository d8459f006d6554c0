/** Decoupled: repeats text_input count times, numbered. */
export const execute = (requests) => requests.map(lines);

async function* lines({ inputs }) {
  const [text] = inputs.get('text_input').data;
  const [count] = inputs.get('count').data;
  for (let number = 0; number < count; number++) {
    yield {
      outputs: {
        text_output: { datatype: 'BYTES', shape: [1], data: [Buffer.concat([text, Buffer.from(` #${number}`)])] },
        number: { datatype: 'INT32', shape: [1], data: Int32Array.of(number) },
      },
    };
  }
}
