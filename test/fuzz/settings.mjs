import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { MODELS } from './models.mjs';

/** Trace and log settings, which requests change for the whole cluster: set back now and then, and at the end. */

const LOGGING = { log_info: true, log_warning: true, log_error: true, log_verbose_level: 0, log_format: 'default' };
const TRACE = { trace_level: ['OFF'], trace_rate: '1000', trace_count: '-1', log_frequency: '0' };
const CLEARED = { trace_level: null, trace_rate: null, trace_count: null, log_frequency: null };
/** Others have a change within a second. */
const LIMIT_MS = 5_000;
const LOOK_MS = 50;
const PATHS = ['/v2/logging', '/v2/trace/setting'];

/** @returns `reset` writes the defaults; `restored` tells what is not as it was at the start, in words. */
export async function openSettings(gateways) {
  const read = ({ http }) => Promise.all(PATHS.map(async (path) => JSON.parse(await ask(`${http}${path}`))));
  const write = (path, body) => ask(`${gateways[0].http}${path}`, JSON.stringify(body));
  const reset = async () => {
    await write('/v2/logging', LOGGING);
    await write('/v2/trace/setting', TRACE);
  };
  const before = await read(gateways[0]);
  return {
    reset,
    async restored() {
      for (const { name } of MODELS) await write(`/v2/models/${name}/trace/setting`, CLEARED);
      await reset();
      let others = [];
      for (const start = performance.now(); performance.now() - start < LIMIT_MS; await delay(LOOK_MS)) {
        const now = await Promise.all(gateways.map(read));
        others = now.filter((values) => !isDeepStrictEqual(values, before));
        if (others.length === 0) return [];
      }
      return others.map(
        (values) => `settings are not restored: ${JSON.stringify(values)}, not ${JSON.stringify(before)}`,
      );
    },
  };
}

/** Over a connection of its own, which is counted as open for no longer than that. */
function ask(url, body) {
  return new Promise((resolve, reject) => {
    const asked = request(url, { agent: false, method: body === undefined ? 'GET' : 'POST' }, (response) => {
      text(response).then(resolve, reject);
    });
    asked.on('error', reject).end(body);
  });
}
