import { expect, test } from 'vitest';
import { MODES } from '../deployment.mjs';
import { runHotSwaps } from './hot-swaps.mjs';

const SWAPS = 10;
const PER_SECOND = 100;
const LIMIT_MS = 120_000;

test.each(MODES)(
  `in mode %s, ${SWAPS} hot swaps under ${PER_SECOND} requests a second: none fails, none is answered by what was not ready`,
  async (mode) => {
    const { answered, problems } = await runHotSwaps({ mode, swaps: SWAPS, perSecond: PER_SECOND });
    expect(problems).toEqual([]);
    expect(answered).toBeGreaterThan(SWAPS);
  },
  LIMIT_MS,
);
