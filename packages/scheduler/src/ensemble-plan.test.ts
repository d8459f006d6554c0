import { expect, test } from 'vitest';
import { planEnsemble } from './ensemble-plan.ts';
import { graph } from './fixture-ensemble.ts';

const options = { name: 'e', decoupled: false };

test('the inputs of the ensemble are the tensors that no step gives', () => {
  const plan = planEnsemble(graph(['x y > a', 'a > z']), { ...options, requested: ['z'] });
  expect(plan.fed.map((tensor) => plan.tensors[tensor]?.name)).toEqual(['x', 'y']);
});

test('outputs that only steps need are kept, those of the answer are not', () => {
  const plan = planEnsemble(graph(['x > a b', 'a b > z']), { ...options, requested: ['b', 'z'] });
  expect(plan.steps.map(({ keep }) => keep)).toEqual([['O0'], []]);
});

test('what a step that hands inputs on takes is not kept: it may be in the answer under another name', () => {
  const signature = graph(['x > a b', 'a > z', 'b > y']);
  const plan = planEnsemble(signature, { ...options, requested: ['y', 'z'], handsOn: (step) => step === 1 });
  expect(plan.steps.map(({ keep }) => keep)).toEqual([['O1'], [], []]);
});

test('a step is needed if an output that was asked for depends on it', () => {
  const plan = planEnsemble(graph(['x > a', 'a > y', 'a > z', 'x > w']), { ...options, requested: ['z'] });
  expect(plan.steps.map(({ needed }) => needed)).toEqual([true, false, true, false]);
});

test('calls wait at gates where the config bounds them', () => {
  const plan = (maxInflight: number) => planEnsemble(graph(['x > z'], maxInflight), { ...options, requested: ['z'] });
  expect([plan(0).gated, plan(3).gated]).toEqual([false, true]);
});
