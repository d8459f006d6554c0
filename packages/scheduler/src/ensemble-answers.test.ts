import fc from 'fast-check';
import { expect, test } from 'vitest';
import { planEnsemble } from './ensemble-plan.ts';
import { createEnsembleRun, type EnsembleDecision } from './ensemble-run.ts';
import { graph } from './fixture-ensemble.ts';

/** No two are the same object. */
interface Made {
  readonly name: string;
}

interface Call {
  readonly step: number;
  readonly inputs: readonly Made[];
  answered: boolean;
}

/** Step i takes any of `x` and of what the steps before it give, and gives one or two tensors. */
const steps = fc
  .array(
    fc.record({ takes: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }), gives: fc.integer({ min: 1, max: 2 }) }),
    { minLength: 1, maxLength: 6 },
  )
  .map((drawn) => {
    const known = ['x'];
    return drawn.map(({ takes, gives }, index) => {
      const given = ['a', 'b'].slice(0, gives).map((letter) => `${letter}${index}`);
      const taken = [...new Set(takes.map((place) => known[place % known.length]))];
      known.push(...given);
      return { given, text: `${taken.join(' ')} > ${given.join(' ')}` };
    });
  });

const rarely = fc.nat(5).map((drawn) => drawn === 0);

/** Which of the running calls answers, without which outputs, whether that is all, and whether only the end is told. */
const turn = fc.record({ place: fc.nat(20), leftOut: fc.nat(15), last: rarely, empty: rarely });

/** The reader of an answer deletes what has gone out with it (docs/protocol.md R30), so nobody may still have to read that. */
test('no tensor of an answer is an input of a call that has not answered, or is yet to come', () => {
  let shared = 0;
  fc.assert(
    fc.property(
      steps,
      fc.array(fc.nat(11), { minLength: 1, maxLength: 4 }),
      fc.array(turn, { maxLength: 60 }),
      fc.nat(63),
      (drawn, wanted, turns, ordered) => {
        const tensors = drawn.flatMap(({ given }) => given);
        const plan = planEnsemble(graph(drawn.map(({ text }) => text)), {
          name: 'e',
          requested: wanted.map((place) => tensors[place % tensors.length] ?? ''),
          decoupled: true,
          ordered: (step) => ((ordered >> step) & 1) === 1,
        });
        const run = createEnsembleRun<Made>(plan, { id: '' });
        const running = new Map<number, Call>();
        const taken = new Set<Made>();
        const out = new Set<Made>();
        const isUnread = (tensor: Made) =>
          [...running.values()].some(({ answered, inputs }) => !answered && inputs.includes(tensor));
        const hear = (decision: EnsembleDecision<Made>) => {
          if (decision.type === 'call') {
            const inputs = [...decision.inputs.values()];
            running.set(decision.call, { step: decision.step, inputs, answered: false });
            expect(inputs.filter((tensor) => out.has(tensor))).toEqual([]);
            for (const tensor of inputs) taken.add(tensor);
          } else if (decision.type === 'respond') {
            const given = [...(decision.outputs?.values() ?? [])];
            expect(given.filter(isUnread)).toEqual([]);
            for (const tensor of given) out.add(tensor);
            if (given.some((tensor) => taken.has(tensor))) shared++;
          }
        };
        run.step({ type: 'begin', inputs: new Map([['x', { name: 'x' }]]) }).forEach(hear);
        for (const { place, leftOut, last, empty } of turns) {
          const [number, call] = [...running][place % Math.max(1, running.size)] ?? [];
          if (number === undefined || call === undefined) break;
          const given = drawn[call.step]?.given.filter((_, at) => leftOut > 3 || ((leftOut >> at) & 1) === 0) ?? [];
          const outputs = last && empty ? undefined : new Map(given.map((name) => [name, { name }]));
          call.answered = true;
          if (last) running.delete(number);
          run.step({ type: 'answer', call: number, outputs, last }).forEach(hear);
        }
      },
    ),
    { numRuns: 150 },
  );
  // Some tensors were both.
  expect(shared).toBeGreaterThan(0);
});
