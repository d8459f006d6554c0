import { expect, test } from 'vitest';
import { MODES, type Mode } from '../deployment.mjs';
import { runFuzz } from './fuzz.mjs';

// The same requests at every run, others in each mode; `node test/fuzz/run.mjs` draws others, and more.
const SEEDS: Readonly<Record<Mode, number>> = { one: 20_261_129, apart: 20_261_130 };
const REQUESTS = 1_000;
const LIMIT_MS = 300_000;
/** So many of them at least are still valid, and had their right values. */
const VALID_SHARE_MIN = 0.25;

test.each(MODES)(
  `in mode %s, ${REQUESTS} drawn requests are answered in order`,
  async (mode) => {
    const seed = SEEDS[mode];
    console.log(`fuzzer: seed ${seed}, mode ${mode}`);
    const { failures, problems, sent, answered } = await runFuzz({ mode, requests: REQUESTS, seed });
    expect(failures.map(({ replay, problem, mutations }) => ({ problem, mutations, replay }))).toEqual([]);
    expect(problems).toEqual([]);
    expect(sent).toBe(REQUESTS);
    expect(answered['http 200']).toBeGreaterThan((REQUESTS / 2) * VALID_SHARE_MIN);
  },
  LIMIT_MS,
);
