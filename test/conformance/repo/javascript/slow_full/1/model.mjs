import { setTimeout as sleep } from 'node:timers/promises';

/** Set once, before the first request. */
let delayMs;

export function initialize({ modelConfig }) {
  delayMs = Number(modelConfig.parameters.execute_delay_ms?.string_value ?? 0);
}

/**
 * Tells each request what it was batched with: ROWS is the number of rows of the whole execution, SUM the sum of VALUE
 * over them, and ECHO the request's own VALUE. It first sleeps for the config parameter execute_delay_ms.
 */
export async function execute(requests) {
  await sleep(delayMs);
  const values = requests.map(({ inputs }) => inputs.get('VALUE'));
  const rows = values.reduce((count, { shape }) => count + shape[0], 0);
  const sum = values.reduce((total, { data }) => data.reduce((one, value) => one + value, total), 0);
  const all = (value, number) => ({ ...value, data: new Int32Array(value.data.length).fill(number) });
  return values.map((value) => ({ outputs: { ROWS: all(value, rows), SUM: all(value, sum), ECHO: value } }));
}
