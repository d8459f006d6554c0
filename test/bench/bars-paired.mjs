/**
 * Turns of servers that are to be told apart by a few per cent.
 *
 * Speed here moves by a tenth and more within seconds, whatever runs beside. So the servers of a turn are loaded in
 * slices of 50 ms, one after the other, over and over: two of the same build differed per turn of 2 s by 2 % of CPU per
 * request (standard deviation) where turns of 2 s each in one piece differed by 14 %. Two processes of one build also
 * differ by up to 2 % for as long as they live, so they are started anew for every second turn.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { quietMoment } from './bars-turns.mjs';
import { isDisturbed, startServers } from './engine.mjs';
import { median, medianRange, spread, total } from './statistics.mjs';
import { turnOfEach } from './turns.mjs';

const SLICE_S = 0.05;
const TURNS_PER_START = 2;
/** Quiet turns that are enough to leave the others out. */
const QUIET_SHARE = 0.5;

/**
 * Starts a server of each column and loads all of them in turns, for as many turns as `times` says.
 *
 * @param {{ sides: string[], columns: object[], models: string, requests: object, concurrency: number,
 *   begin: (server: object) => Promise<void>,
 *   recorded?: (server: object, seen: Set<string>) => Promise<{ steps: number, why?: string }>, place: string,
 *   generator: object, times: object, patience: { left: number }, say: (text: string) => void }} of `sides` names the
 *   columns; `begin` is called before each turn; `recorded` counts what a server recorded since the call before with
 *   the same `seen`; `patience`: ms that may be waited for quiet moments
 * @returns {Promise<{ ratios: Record<string, number>, recorded: number }>} medians of the throughput of each side over
 *   the side before it, by name as `off/base`; `recorded`: of the last side, by what it answered
 */
export async function pairedTurns(of) {
  const { columns, sides, models, place, times, say } = of;
  const turns = [];
  while (turns.length < times.turns) {
    const folder = join(place, `turn-${turns.length + 1}`);
    mkdirSync(folder);
    const { servers, notRun } = await startServers(columns, { models, folder, say });
    try {
      if (servers.length < columns.length) throw new Error(Object.values(notRun).join('\n'));
      const count = Math.min(TURNS_PER_START, times.turns - turns.length);
      await turnsOfStart(servers, { ...of, folder, turns, count });
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  }
  const quiet = turns.filter(({ disturbed }) => !disturbed);
  const isEnough = quiet.length >= turns.length * QUIET_SHARE;
  say(`  ${quiet.length} of ${turns.length} turns were quiet${isEnough ? '' : ', so all count'}`);
  return summed(isEnough ? quiet : turns, sides, say);
}

/** Turns on servers that have just been started, which are added to `turns`. */
async function turnsOfStart(servers, { sides, times, begin, recorded, patience, turns, count, folder, say, ...load }) {
  const { generator, requests, concurrency } = load;
  const file = join(folder, 'answers');
  const each = (seconds, warmUp) =>
    turnOfEach({
      ...{ generator, servers, requests, concurrency, seconds, warmUp, file },
      slice: SLICE_S,
      lastFirst: turns.length % 2 === 1,
    });
  const seen = new Set();
  await Promise.all(servers.map(begin));
  await each(times.firstWarmUp / 2, 0);
  await recorded?.(servers.at(-1), seen);
  for (let taken = 0; taken < count; taken++) {
    await quietMoment(patience);
    await Promise.all(servers.map(begin));
    const figures = await each(times.seconds, times.warmUp);
    for (const [index, { errors, last_error: error }] of figures.entries()) {
      if (errors > 0) throw new Error(`${sides[index]}: ${errors} errors (${error})`);
    }
    const steps = await recorded?.(servers.at(-1), seen);
    if (sides.at(-1) === 'on' && steps?.why !== undefined && turns.length === 0) say(`  not recorded: ${steps.why}`);
    const turn = { figures, disturbed: isDisturbed(figures[0]), recorded: (steps?.steps ?? 0) / figures.at(-1).all };
    turns.push(turn);
    say(`  turn ${turns.length}: ${turnText(turn, sides)}`);
  }
}

/** Of a side to the one before it: requests per second, and the inverse of CPU per request. Below 1 it is dearer. */
const ratiosOf = ({ figures }, index) => ({
  rate: figures[index].rps / figures[index - 1].rps,
  cpu: total(figures[index - 1].cpu_us) / total(figures[index].cpu_us),
});

const pairsOf = (sides) => sides.slice(1).map((side, index) => ({ name: `${side}/${sides[index]}`, index: index + 1 }));

function turnText(turn, sides) {
  const pairs = pairsOf(sides).map(({ name, index }) => {
    const { rate, cpu } = ratiosOf(turn, index);
    return `${name} ${rate.toFixed(3)} (by CPU ${cpu.toFixed(3)})`;
  });
  return `${pairs.join(', ')}, others' CPU ${turn.figures[0].other_cpu.toFixed(2)}`;
}

function summed(turns, sides, say) {
  for (const [index, side] of sides.entries()) {
    const of = (read) => median(turns.map(({ figures }) => read(figures[index])));
    const [rate, cpu] = [of(({ rps }) => rps), of(({ cpu_us: cpuUs }) => total(cpuUs))];
    say(`  ${side}: ${rate.toFixed(0)} requests/s, ${cpu.toFixed(0)} us of CPU per request`);
  }
  const ratios = {};
  for (const { name, index } of pairsOf(sides)) {
    const rates = turns.map((turn) => ratiosOf(turn, index).rate);
    const cpus = turns.map((turn) => ratiosOf(turn, index).cpu);
    say(`  ${name}: ${spreadText(rates)}; by CPU ${spreadText(cpus)}`);
    ratios[name] = median(rates);
  }
  return { ratios, recorded: median(turns.map(({ recorded }) => recorded)) };
}

function spreadText(values) {
  const { median: middle, min, max } = spread(values);
  const sure = medianRange(values);
  const range = (of) => `${of.min.toFixed(3)}–${of.max.toFixed(3)}`;
  const certainty = sure === undefined ? '' : `; the median with 95 % certainty ${range(sure)}`;
  return `${middle.toFixed(3)} (${range({ min, max })}${certainty})`;
}
