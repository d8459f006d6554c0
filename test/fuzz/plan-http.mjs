import { createDice, partSeed } from './dice.mjs';
import { BREAKING_DELIVERY, KEEPING_DELIVERY, writeBody } from './http-deliver.mjs';
import { inferRequest } from './http-infer.mjs';
import { adminRequest, generateRequest, jobRequest, refusedRequest } from './http-other.mjs';
import { BREAKING_BODY, BREAKING_HEAD, KEEPING_HEAD } from './mutate-bytes.mjs';
import { BREAKING_TREE, KEEPING_TREE } from './mutate-tree.mjs';
import { mutationCounts } from './mutation.mjs';

/**
 * A request's plan: where it begins, its mutations and its way over the connection, each with a seed of its own. So
 * leaving one out changes nothing of the others, and a plan is made again from a seed and a number.
 */

const DRAWS = [
  [55, inferRequest],
  [12, adminRequest],
  [10, refusedRequest],
  [10, generateRequest],
  [5, jobRequest],
];
const STAGES = {
  tree: { ...BREAKING_TREE, ...KEEPING_TREE },
  head: { ...BREAKING_HEAD, ...KEEPING_HEAD },
  body: BREAKING_BODY,
};
/** Large bodies cost more than they find. */
const RARE = new Set(['overLimit', 'bomb', 'manyHeaders']);
const RARE_SHARE = 0.2;
const DELIVERIES = { ...KEEPING_DELIVERY, ...BREAKING_DELIVERY };

/** @returns {{ base: number, steps: { stage: string, name: string, seed: number }[] }} */
export function planHttp(seed, index) {
  const dice = createDice(partSeed(seed, index));
  const base = dice.seed();
  const { breaking, keeping } = mutationCounts(dice);
  const steps = [
    ...dice.list(breaking, () => breakingStep(dice)),
    ...dice.list(keeping, () =>
      stepOf(
        dice,
        ...dice.pick([
          ['tree', KEEPING_TREE],
          ['head', KEEPING_HEAD],
        ]),
      ),
    ),
  ];
  const delivery = dice.weighted([
    [12, 'plain'],
    [6, dice.pick(Object.keys(KEEPING_DELIVERY))],
    [2, dice.pick(Object.keys(BREAKING_DELIVERY))],
  ]);
  return { base, steps: [...dice.shuffle(steps), { stage: 'delivery', name: delivery, seed: dice.seed() }] };
}

function breakingStep(dice) {
  const [stage, table] = dice.weighted([
    [6, ['tree', BREAKING_TREE]],
    [2, ['head', BREAKING_HEAD]],
    [2, ['body', BREAKING_BODY]],
  ]);
  const step = stepOf(dice, stage, table);
  return RARE.has(step.name) && !dice.chance(RARE_SHARE) ? stepOf(dice, 'tree', BREAKING_TREE) : step;
}

function stepOf(dice, stage, table) {
  return { stage, name: dice.pick(Object.keys(table)), seed: dice.seed() };
}

/** The request of a plan, with what is to be expected of it, and how to send it. */
export function buildHttp({ base, steps }, { bodyBytesMax }) {
  const dice = createDice(base);
  const request = dice.weighted(DRAWS)(dice);
  request.bodyBytesMax = bodyBytesMax;
  request.headers = [...request.headers];
  const apply = (stage) => {
    for (const step of steps) if (step.stage === stage) STAGES[stage][step.name](request, createDice(step.seed));
  };
  if (request.tree !== undefined) apply('tree');
  apply('head');
  writeBody(request, createDice(base));
  if (request.body.length > 0) apply('body');
  const { name, seed } = steps.find(({ stage }) => stage === 'delivery') ?? { name: 'plain', seed: 0 };
  return { request, delivery: DELIVERIES[name](request, createDice(seed)) };
}
