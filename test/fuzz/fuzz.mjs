import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deploy } from '../deployment.mjs';
import { openGrpcDoor } from './door-grpc.mjs';
import { openHttpDoor } from './door-http.mjs';
import { createFuzzRepository } from './models.mjs';
import { openSettings } from './settings.mjs';
import { openConnections, resourceGrowth, resourcesOf, unsettled } from './settled.mjs';
import { investigate, keepLog } from './shrink.mjs';

/** Requests under way at a time. */
const LANES = 8;
/** After so many requests one that is known to be good must be answered rightly, by each gateway. */
const PROBE_EVERY = 50;
/** More failures tell nothing new. */
const FAILURES_MAX = 10;
/** A small limit, so that bodies over it cost little. */
const BODY_BYTES_MAX = 4_000_000;
/** Lines of a process' log that tell of a fault of its own. */
const FAULTS =
  /threw|handler failed|a stream of requests failed|of model '[^']+' ended|given up|uncaught|unhandled|lapsed/i;
const LINES_MAX = 5;

const OPENERS = { http: openHttpDoor, grpc: openGrpcDoor };

/**
 * Deploys the models in the mode, sends `requests` drawn requests, and checks answers, processes and what is left.
 * `plans` names requests to send in place of those: `{ seed, index, kept }`.
 *
 * @returns {Promise<{ failures: object[], problems: string[], sent: number, answered: Record<string, number> }>}
 */
export async function runFuzz({ mode, requests, seed, only, plans, log = () => {} }) {
  const repository = createFuzzRepository();
  const blobs = mkdtempSync(join(tmpdir(), 'nereid-fuzz-blobs-'));
  const deployment = await deploy(
    mode,
    [repository.folder],
    [`--http-max-input-size=${BODY_BYTES_MAX}`, `--blob-dir=${blobs}`],
  );
  const run = { mode, seed, deployment, log, answered: {}, failures: [], problems: [] };
  let doors = [];
  try {
    const connections = openConnections(deployment.gateways);
    const names = only === undefined ? Object.keys(OPENERS) : [only];
    doors = deployment.gateways.flatMap((gateway) =>
      names.map((name) => OPENERS[name](gateway, { bodyBytesMax: BODY_BYTES_MAX })),
    );
    const settings = await openSettings(deployment.gateways);
    await probe(run, doors, settings);
    const before = resourcesOf(deployment);
    const sent = await (plans === undefined ? sendAll(run, doors, requests, settings) : replay(run, doors, plans));
    await probe(run, doors, settings);
    for (const door of doors) door.close();
    if (run.problems.length === 0) {
      run.problems.push(...(await settings.restored()), ...(await unsettled(deployment, blobs, connections)));
      run.problems.push(...resourceGrowth(deployment, before, log));
    }
    return { failures: run.failures, problems: run.problems, sent, answered: run.answered };
  } finally {
    for (const door of doors) door.close();
    const isInOrder = run.failures.length + run.problems.length === 0;
    for (const [index, { code, output }] of (await deployment.stop()).entries()) {
      if (!isInOrder) keepLog(`${mode}-${index}`, output);
      if (code !== 0) run.problems.push(`a process ended with ${code}:\n${output.slice(-2_000)}`);
      const lines = output.split('\n').filter((line) => FAULTS.test(line));
      if (lines.length > 0) run.problems.push(`faults in a log:\n${lines.slice(0, LINES_MAX).join('\n')}`);
    }
    repository.remove();
    rmSync(blobs, { recursive: true, force: true });
  }
}

async function sendAll(run, doors, requests, settings) {
  let next = 0;
  const lane = async () => {
    while (next < requests && run.failures.length < FAILURES_MAX && run.problems.length === 0) {
      const index = next;
      next += 1;
      await sendOne(run, doors[index % doors.length], { seed: run.seed, index });
      if (index % PROBE_EVERY === PROBE_EVERY - 1) await probe(run, doors, settings);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return next;
}

/** A replay is by the door that the request had, at whichever gateway: `only` leaves the other doors out. */
async function replay(run, doors, plans) {
  for (const plan of plans) {
    await sendOne(run, doors[plan.index % doors.length], plan, true);
  }
  return plans.length;
}

async function sendOne(run, door, { seed, index, kept }, isReplay = false) {
  const plan = door.plan(seed, index);
  const steps = kept === undefined ? plan.steps : plan.steps.filter((_, place) => kept.includes(place));
  const attempt = await door.attempt({ ...plan, steps });
  for (const status of attempt.statuses) run.answered[status] = (run.answered[status] ?? 0) + 1;
  if (isReplay) run.log(`${seed}:${index}: ${attempt.problem ?? 'in order'}\n${door.describe(attempt)}`);
  if (attempt.problem === undefined) return;
  checkAlive(run);
  const found = { seed, index, plan, attempt };
  run.failures.push(isReplay ? attempt : await investigate(run, door, found, run.problems.length === 0));
}

function checkAlive({ deployment, problems }) {
  for (const { role, process: child } of deployment.processes) {
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    // Once: every request after it fails.
    if (hasEnded && problems.length === 0) problems.push(`a ${role} has ended`);
  }
}

async function probe(run, doors, settings) {
  checkAlive(run);
  if (run.problems.length > 0) return;
  try {
    for (const door of doors) {
      const problem = await door.probe();
      if (problem !== undefined) run.problems.push(`a good request is not answered rightly: ${problem}`);
    }
    await settings.reset();
  } catch (error) {
    run.problems.push(`the settings cannot be set back: ${error.message}`);
  }
}
