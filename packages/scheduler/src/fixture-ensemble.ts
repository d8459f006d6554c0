import type { EnsembleSignature } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';
import { type EnsemblePlanOptions, planEnsemble } from './ensemble-plan.ts';
import { createEnsembleRun, type EnsembleDecision, type EnsembleEvent } from './ensemble-run.ts';

/**
 * A graph in short: `a b > c d` is a step that takes the tensors a and b and gives c and d. Its model's inputs are I0, I1
 * and so on, its outputs O0, O1.
 */
export function graph(steps: readonly string[], maxInflight = 0): EnsembleSignature {
  return {
    maxInflight,
    steps: steps.map((text, index) => {
      const [takes = '', gives = ''] = text.split('>').map((side) => side.trim());
      return { model: `m${index}`, version: '', inputs: mapped(takes, 'I'), outputs: mapped(gives, 'O') };
    }),
  };
}

function mapped(side: string, letter: string) {
  return side
    .split(' ')
    .filter((tensor) => tensor !== '')
    .map((tensor, index) => ({ name: `${letter}${index}`, tensor }));
}

/** Runs one request and writes what is decided: `call 0: step 1 (I0=x)`, `respond z=…`, `fail CODE text`. */
export function playEnsemble(
  steps: readonly string[],
  options: Partial<EnsemblePlanOptions> & { readonly requested: readonly string[]; readonly maxInflight?: number },
) {
  const plan = planEnsemble(graph(steps, options.maxInflight), { name: 'e', decoupled: false, ...options });
  const run = createEnsembleRun<string>(plan, { id: '' });
  const tell = (event: EnsembleEvent<string>) => run.step(event).map(written);
  return {
    run,
    begin: (...inputs: string[]) => tell({ type: 'begin', inputs: values(inputs) }),
    /** `a=1`: the value of a tensor. */
    answer: (call: number, ...outputs: string[]) =>
      tell({ type: 'answer', call, outputs: values(outputs), last: true }),
    more: (call: number, ...outputs: string[]) => tell({ type: 'answer', call, outputs: values(outputs), last: false }),
    /** The end of the answers and nothing else. */
    end: (call: number) => tell({ type: 'answer', call, outputs: undefined, last: true }),
    fail: (call: number, message: string, detail: Partial<ErrorInfo> = {}) =>
      tell({ type: 'failed', call, error: { code: 'INTERNAL', message, ...detail } }),
    cancel: () => tell({ type: 'cancel' }),
  };
}

function values(pairs: readonly string[]): Map<string, string> {
  return new Map(pairs.map((pair) => [pair.split('=')[0] ?? '', pair.split('=')[1] ?? pair]));
}

function written(decision: EnsembleDecision<string>): string {
  switch (decision.type) {
    case 'call':
      return `call ${decision.call}: step ${decision.step} (${listed(decision.inputs)})`;
    case 'respond':
      return `${decision.last ? 'respond last' : 'respond'} (${decision.outputs ? listed(decision.outputs) : 'nothing'})`;
    case 'fail':
      return `fail ${decision.error.code} ${decision.error.message}`;
    case 'release':
      return `release ${[...decision.tensors].sort().join(' ')}`;
    default:
      return `${decision.type} ${decision.call}`;
  }
}

function listed(tensors: ReadonlyMap<string, string>): string {
  return [...tensors].map(([name, value]) => `${name}=${value}`).join(' ');
}
