import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterOn, flagEnvironment } from '../deployment.mjs';
import { startPrivateRedis } from '../private-redis.mjs';
import { createMembers, PLACES } from './members.mjs';
import { startSequenceLoad } from './sequence-load.mjs';
import { SEQUENCE_MODEL, writeSequenceModel } from './sequence-model.mjs';

const CLIENTS = 24;
/** Load before a fault and after one is over. */
const SETTLE_MS = 1_000;
/** Until sequences of a dead worker are told so, and another works in its place, beside the time-outs of the cluster. */
const LOST_TOLD_MS = 60_000;
/** Until the worker that is to stop has a sequence. */
const HAS_SOME_MS = 30_000;
const LOOK_MS = 20;
/** A START that a gateway sent before it heard of the drain may still come to the worker. */
const STARTS_LAG_MS = 1_000;

/**
 * Sequences stepped through two gateways on two workers and two coordinators, while in turn: the coordinator that owns
 * the model is killed `kills` times, every `everyMs`; a worker is killed; a worker is asked to stop. Tells for each of
 * these what became of the sequences that ran during it, and what is wrong with that, in words.
 */
export async function runSequenceRounds({
  kills,
  everyMs,
  rounds = ['coordinator', 'worker', 'drain'],
  tell = () => {},
}) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-sequence-faults-'));
  writeSequenceModel(folder);
  const redis = await startPrivateRedis();
  const members = createMembers(clusterOn(redis, flagEnvironment([`--model-repository=${folder}`])), SEQUENCE_MODEL);
  try {
    await members.startAll();
    const load = startSequenceLoad({ doors: members.door, places: PLACES, clients: CLIENTS });
    await delay(SETTLE_MS);
    const results = [];
    for (const name of rounds) {
      results.push({ name, ...(await ROUNDS[name]({ members, load, kills, everyMs })) });
      tell(results.at(-1));
    }
    await load.stop();
    const left = await whenQuiet(members);
    const endings = await members.stop();
    return { results, sequences: load.sequences, left, endings };
  } finally {
    members.killAll();
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const ROUNDS = { coordinator: coordinatorRound, worker: workerRound, drain: drainRound };

/** Coordinators hold nothing that is not found again: no sequence is touched. */
async function coordinatorRound({ members, load, kills, everyMs }) {
  const fromMs = performance.now();
  for (let kill = 0; kill < kills; kill += 1) {
    const untilMs = performance.now() + everyMs;
    await members.replace('coordinator', await members.ownerPlace());
    await delay(Math.max(0, untilMs - performance.now()));
  }
  await delay(SETTLE_MS);
  const seen = endedSince(load, fromMs);
  return { ...figures(seen), problems: [...noneEnded(seen), ...notRight(seen)] };
}

/** What a worker had is lost, and said to be; all else goes on. */
async function workerRound({ members, load }) {
  const fromMs = performance.now();
  const pid = members.pid('worker', 0);
  const kept = load.running().filter((one) => one.pid === pid);
  const killedMs = performance.now();
  const successor = await members.replace('worker', 0);
  const works = () => [...load.sequences, ...load.running()].some((one) => one.pid === successor.pid);
  const isTold = () => kept.every(({ outcome }) => outcome !== undefined);
  while (!(isTold() && works()) && performance.now() - killedMs < LOST_TOLD_MS) await delay(LOOK_MS);
  await delay(SETTLE_MS);
  const seen = endedSince(load, fromMs);
  const ofDead = seen.filter((one) => one.pid === pid && one.endedMs > killedMs);
  // Whose process nobody has heard of: its START may have died with it, or run elsewhere.
  const unknown = seen.filter((one) => one.steps === 0 && one.begunMs < killedMs);
  const others = seen.filter((one) => !ofDead.includes(one) && !unknown.includes(one));
  return {
    ...figures(seen),
    problems: [
      ...(kept.length === 0 ? ['the worker that was killed had no sequence'] : []),
      ...kept.filter(({ outcome }) => outcome === undefined).map(({ id }) => `sequence ${id} was not told to be lost`),
      ...(works() ? [] : ['the worker in its place had no sequence']),
      // Its last answer may have left before it died.
      ...[...ofDead, ...unknown].filter(({ outcome }) => outcome !== 'lost' && outcome !== 'right').map(inWords),
      ...notRight(others),
    ],
  };
}

/** What a worker has ends there; what begins, begins elsewhere. */
async function drainRound({ members, load }) {
  const pid = members.pid('worker', 1);
  for (const start = performance.now(); performance.now() - start < HAS_SOME_MS; await delay(LOOK_MS)) {
    if (load.running().some((one) => one.pid === pid)) break;
  }
  const fromMs = performance.now();
  const kept = load.running().filter((one) => one.pid === pid);
  const { ending, endedMs } = await members.drain('worker', 1);
  await delay(SETTLE_MS);
  const seen = endedSince(load, fromMs);
  const late = [...load.sequences, ...load.running()].filter(
    (one) => one.pid === pid && one.begunMs > fromMs + STARTS_LAG_MS,
  );
  return {
    ...figures(seen),
    drainMs: Math.round(endedMs - fromMs),
    problems: [
      ...(kept.length === 0 ? ['the worker that was to stop had no sequence'] : []),
      ...late.map(({ id }) => `sequence ${id} began on a worker that was to stop`),
      ...(ending.code === 0 ? [] : [`the worker ended with ${ending.code}:\n${ending.output}`]),
      ...notRight(seen),
    ],
  };
}

function endedSince({ sequences }, fromMs) {
  return sequences.filter(({ endedMs }) => endedMs >= fromMs);
}

function figures(seen) {
  const countOf = (outcome) => seen.filter((one) => one.outcome === outcome).length;
  const steps = seen.reduce((sum, one) => sum + one.steps, 0);
  return { sequences: seen.length, steps, right: countOf('right'), lost: countOf('lost') };
}

function noneEnded(seen) {
  return seen.length === 0 ? ['no sequence ended'] : [];
}

function notRight(seen) {
  return seen.filter(({ outcome }) => outcome !== 'right').map(inWords);
}

function inWords({ id, outcome, steps, text }) {
  return `sequence ${id} is ${outcome} after ${steps} steps: ${text}`;
}

/** Waits until no role holds anything; returns what they hold all the same. */
async function whenQuiet(members) {
  const limitMs = performance.now() + LOST_TOLD_MS;
  for (;;) {
    const held = await members.held();
    if (held.length === 0 || performance.now() > limitMs) return held;
    await delay(LOOK_MS);
  }
}
