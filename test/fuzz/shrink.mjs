import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE } from '../../deploy/setup/checkout.mjs';

const FOLDER = join(CACHE, 'fuzz');

/**
 * Leaves out of a failing request's mutations whatever it fails without, one by one, and writes it to a file; without
 * `canRepeat`, where a process has ended, it only writes it. The
 * failure: `{ replay, problem, mutations, file }`; `replay` is the command that sends it again.
 */
export async function investigate({ mode, log }, door, { seed, index, plan, attempt }, canRepeat) {
  let kept = plan.steps.map((_, place) => place);
  let smallest = attempt;
  let alone = false;
  const without = async (places) => {
    const again = await door.attempt({ ...plan, steps: plan.steps.filter((_, place) => places.includes(place)) });
    if (again.problem === undefined) return false;
    kept = places;
    smallest = again;
    alone = true;
    return true;
  };
  if (canRepeat) await without(kept);
  for (const place of alone ? plan.steps.keys() : [])
    if (kept.includes(place)) await without(kept.filter((other) => other !== place));
  const replay = `node test/fuzz/run.mjs --mode ${mode} --only ${door.name} --replay ${seed}:${index}:${kept.join(',')}`;
  const failure = {
    replay,
    problem: smallest.problem,
    first: attempt.problem,
    alone,
    mutations: plan.steps.filter((_, place) => kept.includes(place)).map(({ stage, name }) => `${stage} ${name}`),
    request: door.record(smallest),
  };
  mkdirSync(FOLDER, { recursive: true });
  const file = join(FOLDER, `${door.name}-${mode}-${seed}-${index}.json`);
  writeFileSync(file, `${JSON.stringify(failure, null, 2)}\n`);
  const how = alone ? `after ${failure.mutations.join(', ') || 'no mutation'}` : 'only among others';
  log(`${failure.problem}\n  ${how}; ${file}\n  ${replay}`);
  return { ...failure, file };
}

/** Keeps a process' log beside the failures. */
export function keepLog(name, output) {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, `${name}.log`), output);
}
