/** Ensembles as a seed has them, what their models answer, and what that comes to by the simplest way there is. */
import type { EnsembleSignature } from '@nereid/config';
import { type Random, seededRandom } from '@nereid/runtime';
import { pick } from './sim-models.ts';

export interface DrawnStep {
  readonly takes: readonly string[];
  readonly gives: readonly string[];
  readonly decoupled: boolean;
  readonly ordered: boolean;
}

export interface DrawnEnsemble {
  readonly steps: readonly DrawnStep[];
  readonly requested: readonly string[];
  readonly decoupled: boolean;
  readonly maxInflight: number;
  /** One step after another, all of which keep the order: so do the answers. */
  readonly isOrdered: boolean;
  /** Of a call, that it fails. */
  readonly failureShare: number;
}

/** By the ensemble's names of tensors, undefined for one that was left out. */
export type Values = ReadonlyMap<string, string | undefined>;

/** What a model does with a call. */
export interface ModelFate {
  readonly fails: boolean;
  readonly answers: readonly ReadonlyMap<string, string>[];
  /** The end comes in a message of its own. */
  readonly endsAlone: boolean;
}

const STEPS_MAX = 6;
const TAKES_MAX = 3;
const ANSWERS_MAX = 3;
const LEFT_OUT_SHARE = 0.08;

export function drawEnsemble(random: Random): DrawnEnsemble {
  const isOrdered = random.next() < 0.2;
  const { steps, requested } = isOrdered ? drawChain(random) : drawGraph(random);
  return {
    steps,
    requested,
    decoupled: steps.some(({ decoupled }) => decoupled),
    maxInflight: pick(random, [0, 0, 1, 2]),
    isOrdered,
    failureShare: pick(random, [0, 0, 0.1]),
  };
}

function drawChain(random: Random) {
  const steps = Array.from({ length: count(random, 2, 4) }, (_, index) => ({
    takes: [`t${index}`],
    gives: [`t${index + 1}`],
    decoupled: index === 0,
    ordered: index > 0,
  }));
  return { steps, requested: [`t${steps.length}`] };
}

/** As Triton lets it be: whatever meets is of one decoupled step's answer, or of none. */
function drawGraph(random: Random) {
  const tensors = Array.from({ length: count(random, 1, 3) }, (_, index) => ({ name: `x${index}`, source: -1 }));
  const steps: DrawnStep[] = [];
  for (let index = count(random, 1, STEPS_MAX); index > 0; index--) {
    const { source } = pick(random, tensors);
    const same = tensors.filter((tensor) => tensor.source === source);
    const takes = new Set(Array.from({ length: count(random, 1, TAKES_MAX) }, () => pick(random, same).name));
    const gives = Array.from({ length: count(random, 1, 2) }, (_, output) => `t${steps.length}.${output}`);
    const decoupled = random.next() < 0.25;
    for (const name of gives) tensors.push({ name, source: decoupled ? steps.length : source });
    steps.push({ takes: [...takes], gives, decoupled, ordered: !decoupled && random.next() < 0.3 });
  }
  const given = tensors.filter(({ name }) => name.startsWith('t'));
  const { source } = pick(random, given);
  const same = given.filter((tensor) => tensor.source === source);
  return { steps, requested: [...new Set([pick(random, same).name, pick(random, same).name])] };
}

export function signatureOf({ steps, maxInflight }: DrawnEnsemble): EnsembleSignature {
  const mapped = (letter: string, tensors: readonly string[]) =>
    tensors.map((tensor, index) => ({ name: `${letter}${index}`, tensor }));
  return {
    maxInflight,
    steps: steps.map(({ takes, gives }, index) => ({
      model: `m${index}`,
      version: '',
      inputs: mapped('I', takes),
      outputs: mapped('O', gives),
    })),
  };
}

/** What the client gives: all that no step does, now and then without one. */
export function drawInputs({ steps }: DrawnEnsemble, random: Random, request: number): Map<string, string> {
  const fed = new Set(steps.flatMap(({ takes }) => takes).filter((name) => !name.startsWith('t')));
  if (steps[0]?.takes[0] === 't0') fed.add('t0');
  const given = [...fed].filter(() => random.next() >= LEFT_OUT_SHARE);
  return new Map(given.map((name) => [name, `${name}=${request}`]));
}

/** Always the same for the same seed and inputs. */
export function modelFate(ensemble: DrawnEnsemble, seed: number, step: number, inputs: Values): ModelFate {
  const drawn = ensemble.steps[step];
  if (drawn === undefined) throw new Error(`no step ${step}`);
  const key = callKey(step, inputs);
  const random = seededRandom(hash(`${seed} ${key}`));
  const fails = random.next() < ensemble.failureShare;
  const given = drawn.decoupled ? count(random, 0, ANSWERS_MAX) : 1;
  const answers = Array.from({ length: given }, (_, answer) => {
    const kept = drawn.gives.filter(() => random.next() >= LEFT_OUT_SHARE);
    return new Map(kept.map((name) => [name, `${name}=${hash(`${answer} ${name} ${key}`).toString(16)}`]));
  });
  return { fails, answers, endsAlone: drawn.decoupled && (given === 0 || random.next() < 0.5) };
}

export function callKey(step: number, inputs: Values): string {
  const given = [...inputs].filter(([, value]) => value !== undefined).sort(([a], [b]) => (a < b ? -1 : 1));
  return `${step}(${given.map(([name, value]) => `${name}:${value}`).join(' ')})`;
}

export function answerText(outputs: Values): string {
  return callKey(-1, outputs);
}

/** A whole number, both ends included. */
export function count(random: Random, min: number, max: number): number {
  return min + Math.floor(random.next() * (max - min + 1));
}

/** FNV-1a. */
function hash(text: string): number {
  let mixed = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) mixed = Math.imul(mixed ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return mixed;
}

/** All answers and all calls of one request, one step after another; each decoupled answer goes on by itself. */
export function evaluate(ensemble: DrawnEnsemble, seed: number, fed: Values): { answers: string[]; calls: string[] } {
  const { steps, requested } = ensemble;
  const answers: string[] = [];
  const calls: string[] = [];
  const leads = ({ gives }: DrawnStep): boolean =>
    gives.some((name) => requested.includes(name) || steps.some((next) => next.takes.includes(name) && leads(next)));

  const walk = (known: Map<string, string | undefined>) => {
    const children: ReadonlyMap<string, string>[] = [];
    const called = new Set<number>();
    for (let before = -1; before < called.size; ) {
      before = called.size;
      for (const [index, step] of steps.entries()) {
        if (called.has(index) || !leads(step) || !step.takes.every((name) => known.has(name))) continue;
        called.add(index);
        const inputs = new Map(step.takes.map((name) => [name, known.get(name)]));
        calls.push(callKey(index, inputs));
        const fate = modelFate(ensemble, seed, index, inputs);
        if (fate.fails) continue;
        for (const answer of fate.answers) {
          const values = new Map(step.gives.map((name) => [name, answer.get(name)]));
          if (step.decoupled) children.push(values as Map<string, string>);
          else for (const [name, value] of values) known.set(name, value);
        }
      }
    }
    if (requested.every((name) => known.has(name))) {
      answers.push(answerText(new Map(requested.map((name) => [name, known.get(name)]))));
    }
    for (const child of children) walk(new Map(child));
  };

  const all = new Set(steps.flatMap(({ takes }) => takes));
  for (const { gives } of steps) for (const name of gives) all.delete(name);
  walk(new Map([...all].map((name) => [name, fed.get(name)])));
  return { answers, calls };
}
