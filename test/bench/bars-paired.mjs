/**
 * Turns of servers that are to be told apart by a few per cent.
 *
 * Speed here moves by a tenth and more within seconds, whatever runs beside. So the servers of a turn are loaded in
 * slices of 50 ms, one after the other, over and over: in 14 turns of 2 s on servers of one build, on a busy machine,
 * the ratio of their CPU per request had a standard deviation of 5 %, that of their throughput 16 %; of 11 and 25 %
 * where each had its 2 s in one piece. Two servers of one build also differ by some per cent for as long as they live,
 * so that turns on the same two say the same again: they are started anew for each turn, in another order.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { quietMoment } from './bars-turns.mjs';
import { isDisturbed, startServers } from './engine.mjs';
import { median, medianRange, spread, total, turnOrder } from './statistics.mjs';
import { turnOfEach } from './turns.mjs';

const SLICE_S = 0.05;
/** Of each server, before its turn. */
const WARM_UP_S = 1.5;
/** Quiet turns that are enough to leave the others out. */
const QUIET_SHARE = 0.5;

/**
 * For as many turns as `times` says, starts a server of each column and loads all of them.
 *
 * @param {{ sides: string[], columns: object[], models: string, requests: object, concurrency: number,
 *   begin: (server: object) => Promise<void>,
 *   recorded?: (server: object, seen: Set<string>) => Promise<{ steps: number, why?: string }>, place: string,
 *   generator: object, times: object, patience: { left: number }, say: (text: string) => void }} of `sides` names the
 *   columns; `begin` is called before a load; `recorded` counts what a server recorded since the call before with
 *   the same `seen`; `patience`: ms that may be waited for quiet moments
 * @returns {Promise<{ ratios: Record<string, number>, recorded: number }>} medians of the throughput of each side over
 *   the side before it, by name as `off/base`; `recorded`: of the last side, by what it answered
 */
export async function pairedTurns(of) {
  const { columns, sides, models, place, times, say } = of;
  const turns = [];
  for (let index = 0; index < times.turns; index++) {
    const folder = join(place, `turn-${index + 1}`);
    mkdirSync(folder);
    const order = turnOrder(sides.length, index);
    const inOrder = order.map((side) => columns[side]);
    const { servers, notRun } = await startServers(inOrder, { models, folder, say });
    try {
      if (servers.length < columns.length) throw new Error(Object.values(notRun).join('\n'));
      const turn = await takeTurn(servers, order, { ...of, folder });
      turns.push(turn);
      say(`  turn ${index + 1}: ${turnText(turn, sides)}`);
    } finally {
      await Promise.all(servers.map((server) => server.stop()));
    }
  }
  const quiet = turns.filter(({ disturbed }) => !disturbed);
  const isEnough = quiet.length >= turns.length * QUIET_SHARE;
  say(`  ${quiet.length} of ${turns.length} turns were quiet${isEnough ? '' : ', so all count'}`);
  return summed(isEnough ? quiet : turns, sides, say);
}

/** One turn on servers that have just been started, in the order in which `order` names their sides. */
async function takeTurn(servers, order, { sides, times, begin, recorded, patience, folder, ...load }) {
  const { generator, requests, concurrency } = load;
  const of = { generator, servers, requests, concurrency, slice: SLICE_S, file: join(folder, 'answers') };
  await Promise.all(servers.map(begin));
  await turnOfEach({ ...of, seconds: WARM_UP_S, warmUp: 0 });
  const last = order.indexOf(sides.length - 1);
  const seen = new Set();
  await recorded?.(servers[last], seen);
  await quietMoment(patience);
  await Promise.all(servers.map(begin));
  const figures = await turnOfEach({ ...of, seconds: times.seconds, warmUp: times.warmUp });
  for (const [at, { errors, last_error: error }] of figures.entries()) {
    if (errors > 0) throw new Error(`${sides[order[at]]}: ${errors} errors (${error})`);
  }
  const { steps = 0, why } = (await recorded?.(servers[last], seen)) ?? {};
  return {
    figures: sides.map((_, side) => figures[order.indexOf(side)]),
    disturbed: isDisturbed(figures[0]),
    recorded: steps / figures[last].all,
    notRecorded: why,
  };
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
  const lacks = turn.notRecorded === undefined ? '' : `, not recorded: ${turn.notRecorded}`;
  return `${pairs.join(', ')}${lacks}, others' CPU ${turn.figures[0].other_cpu.toFixed(2)}`;
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
