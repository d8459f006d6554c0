import { setTimeout as sleep } from 'node:timers/promises';

/** Decoupled: an answer for each element of VALUES. */
export const execute = (requests) => requests.map(answers);

/**
 * VALUE is the element and INDEX its position. With FAIL_AT = n, the n-th answer (from 0) is an error instead.
 * DELAY_MS is slept before each.
 */
async function* answers({ inputs, signal }) {
  const scalar = (name, standard) => inputs.get(name)?.data[0] ?? standard;
  const failAt = scalar('FAIL_AT', -1);
  const delayMs = scalar('DELAY_MS', 0);
  for (const [index, value] of inputs.get('VALUES').data.entries()) {
    // Throws where the client leaves, which ends the stream.
    if (delayMs > 0) await sleep(delayMs, undefined, { signal });
    yield index === failAt ? new Error(`failed at index ${index}`) : answer(value, index);
  }
}

function answer(value, index) {
  return {
    outputs: {
      VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(value) },
      INDEX: { datatype: 'UINT32', shape: [1], data: Uint32Array.of(index) },
    },
  };
}
