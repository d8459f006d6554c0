import { setTimeout as sleep } from 'node:timers/promises';

/** Set once, before the first request. */
let delayMs;

export function initialize({ modelConfig }) {
  delayMs = Number(modelConfig.parameters.execute_delay_ms.string_value);
}

/** Sleeps for the config parameter execute_delay_ms, then repeats its input. */
export async function execute(requests) {
  const responses = [];
  for (const { inputs } of requests) {
    await sleep(delayMs);
    responses.push({ outputs: { OUTPUT: inputs.get('INPUT') } });
  }
  return responses;
}
