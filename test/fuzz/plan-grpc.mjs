import { createDice, partSeed } from './dice.mjs';
import { inferCall, streamCall } from './grpc-infer.mjs';
import { adminCall, refusedCall } from './grpc-other.mjs';
import {
  BREAKING_CALL,
  BREAKING_FIELDS,
  BREAKING_FRAMES,
  KEEPING_FIELDS,
  KEEPING_FRAMES,
  writeFrames,
} from './mutate-grpc.mjs';
import { mutationCounts } from './mutation.mjs';

/** As plan-http.mjs: a call's plan, where each part has a seed of its own. */

const DRAWS = [
  [50, inferCall],
  [20, streamCall],
  [15, adminCall],
  [10, refusedCall],
];
const STAGES = {
  fields: { ...BREAKING_FIELDS, ...KEEPING_FIELDS },
  frames: { ...BREAKING_FRAMES, ...KEEPING_FRAMES },
  call: BREAKING_CALL,
};

export function planGrpc(seed, index) {
  const dice = createDice(partSeed(seed, index));
  const base = dice.seed();
  const { breaking, keeping } = mutationCounts(dice);
  const step = (stage, table) => ({ stage, name: dice.pick(Object.keys(table)), seed: dice.seed() });
  const steps = [
    ...dice.list(breaking, () =>
      step(
        ...dice.weighted([
          [6, ['fields', BREAKING_FIELDS]],
          [3, ['frames', BREAKING_FRAMES]],
          [1, ['call', BREAKING_CALL]],
        ]),
      ),
    ),
    ...dice.list(keeping, () =>
      step(
        ...dice.pick([
          ['fields', KEEPING_FIELDS],
          ['frames', KEEPING_FRAMES],
        ]),
      ),
    ),
  ];
  return { base, steps: dice.shuffle(steps) };
}

export function buildGrpc({ base, steps }) {
  const dice = createDice(base);
  const call = dice.weighted(DRAWS)(dice);
  call.headers = {};
  const apply = (stage) => {
    for (const { seed, name } of steps.filter((step) => step.stage === stage)) {
      // Without a message there is nothing to mutate in one.
      if (call.frames?.length !== 0) STAGES[stage][name](call, createDice(seed));
    }
  };
  apply('fields');
  writeFrames(call);
  apply('frames');
  apply('call');
  return call;
}
