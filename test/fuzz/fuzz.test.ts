import { expect, test } from 'vitest';
import { MODES } from '../deployment.mjs';
import { runFuzz } from './fuzz.mjs';

// The same requests at every run; `node test/fuzz/run.mjs` draws others, and more.
const SEED = 20_261_129;
const REQUESTS = 2_000;
const LIMIT_MS = 300_000;
/** So many of them at least are still valid, and had their right values. */
const VALID_SHARE_MIN = 0.25;

test.each(MODES)(
  `in mode %s, ${REQUESTS} drawn requests of seed ${SEED} are answered in order`,
  async (mode) => {
    console.log(`fuzzer: seed ${SEED}, mode ${mode}`);
    const { failures, problems, sent, answered } = await runFuzz({ mode, requests: REQUESTS, seed: SEED });
    expect(failures.map(({ replay, problem, mutations }) => ({ problem, mutations, replay }))).toEqual([]);
    expect(problems).toEqual([]);
    expect(sent).toBe(REQUESTS);
    expect(answered['http 200']).toBeGreaterThan((REQUESTS / 2) * VALID_SHARE_MIN);
  },
  LIMIT_MS,
);
