/** The turns of the bars, which want a quiet machine. */
import { setTimeout as delay } from 'node:timers/promises';
import { takeTurns } from './engine.mjs';
import { busySeconds } from './proc-cpu.mjs';
import { summary } from './statistics.mjs';

const LOOK_MS = 400;
const BUSY_CORES_MAX = 0.25;
/** Quiet turns that are enough to leave the others out. */
const QUIET_MIN = 3;

/**
 * Alternating turns of `{ name, take }`, said; by name their summary, with the `turns` that count. `times.patience`: how
 * many seconds are waited, over all turns, for moments in which nothing else runs; half as many of turns are repeated.
 */
export async function quietTurns(runs, { times, say }) {
  const patience = { left: times.patience * 1000 };
  const patient = runs.map(({ name, take }) => ({ name, take: () => quietMoment(patience).then(take) }));
  const turns = await takeTurns(patient, { times, budget: { left: times.patience / 2 }, say });
  return Object.fromEntries(
    Object.entries(turns).map(([name, taken]) => {
      const quiet = taken.filter(({ disturbed }) => !disturbed);
      const isEnough = quiet.length >= QUIET_MIN;
      if (!isEnough) say(`  ${name}: only ${quiet.length} of ${taken.length} turns were quiet, so all count`);
      const counted = isEnough ? quiet : taken;
      const of = summary(counted);
      const { rps, p50_ms: p50, others_cpu: others } = of;
      say(
        `  ${name}: ${rps.median.toFixed(0)} rows/s (${rps.min.toFixed(0)}–${rps.max.toFixed(0)}), ` +
          `p50 ${p50.median.toFixed(2)} ms, others' CPU ${others.median.toFixed(2)}`,
      );
      if (of.errors > 0) throw new Error(`${name}: ${of.errors} errors`);
      return [name, { ...of, turns: counted }];
    }),
  );
}

/** Waits until little runs on the machine, as long as there is patience left. */
export async function quietMoment(patience) {
  for (let isQuiet = false; !isQuiet && patience.left > 0; patience.left -= LOOK_MS) {
    const before = busySeconds();
    await delay(LOOK_MS);
    isQuiet = ((busySeconds() - before) * 1000) / LOOK_MS < BUSY_CORES_MAX;
  }
}

/** A figure that is to be no less. */
export const bar = (what, value, least) => ({
  what,
  figure: value.toFixed(2),
  bar: `at least ${least}`,
  holds: value >= least,
});

/** A figure that is to be no more. */
export const mostBar = (what, value, most) => ({
  what,
  figure: value.toFixed(2),
  bar: `at most ${most}`,
  holds: value <= most,
});
