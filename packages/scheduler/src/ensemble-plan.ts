import type { EnsembleSignature } from '@nereid/config';

/** A step as a run sees it; tensors are places in `EnsemblePlan.tensors`. */
export interface PlannedStep {
  /** What the step's model takes, by its own names. */
  readonly inputs: readonly { readonly name: string; readonly tensor: number }[];
  /** The tensors of `inputs`, each once. */
  readonly takes: readonly number[];
  /** What it gives. */
  readonly gives: readonly number[];
  /** The model's names of outputs that are no part of an answer to the client: only other steps need them, if anybody. */
  readonly keep: readonly string[];
  /** Something that was asked for depends on it. The others are never called. */
  readonly needed: boolean;
  /** Its answers are taken in the order of its calls. */
  readonly ordered: boolean;
}

export interface PlannedTensor {
  readonly name: string;
  /** Steps that are needed and take it, in their order. */
  readonly takers: readonly number[];
  /** The client gets it. */
  readonly requested: boolean;
}

/** What can come in an iteration. */
export interface IterationStart {
  /** By step: how many tensors it waits for, or `NEVER`. */
  readonly missing: readonly number[];
  /** Outputs that the answer of this iteration waits for, or `NEVER` where it gives none. */
  readonly outputsMissing: number;
}

/** The graph of an ensemble for one set of outputs. Never changes, so that all runs which ask for these share it. */
export interface EnsemblePlan {
  readonly name: string;
  readonly decoupled: boolean;
  /** Calls may wait before they are sent (`EnsembleSignature.maxInflight`). */
  readonly gated: boolean;
  readonly steps: readonly PlannedStep[];
  readonly tensors: readonly PlannedTensor[];
  /** Tensors that no step gives: the ensemble's own inputs. */
  readonly fed: readonly number[];
  /** Tensors of an answer, in the order asked for. */
  readonly requested: readonly number[];
  /** Of a run's first iteration. */
  readonly first: IterationStart;
  /** Of an iteration that begins with an answer of that step: only what depends on the answer alone comes in it. */
  after(step: number): IterationStart;
}

/** A step or an answer for which something will not come, in this iteration; or that has been called, or given. */
export const NEVER = -1;

export interface EnsemblePlanOptions {
  readonly name: string;
  /** Names of the outputs that the client asked for; all of the ensemble's where it named none. */
  readonly requested: readonly string[];
  /** Some composing model is decoupled. */
  readonly decoupled: boolean;
  /**
   * The step's model answers in the order of its requests; for none, if left out. Triton has it so for models that keep
   * sequences, that have one instance and no dynamic batching, or whose batching preserves the order
   * (ensemble_scheduler.cc, preserve_responses_order); a decoupled one's answers are taken as they come.
   */
  readonly ordered?: (step: number) => boolean;
  /** The step's model may answer with a tensor that it was given, as an ensemble does; none, if left out. */
  readonly handsOn?: (step: number) => boolean;
}

/**
 * Which steps a request needs and what each waits for.
 *
 * A step runs if a requested output depends on it. Triton prunes in the same sense, but also prunes a step whose output
 * is needed by another and was not asked for itself, and then ends as a deadlock (EnsembleContext's constructor).
 */
export function planEnsemble(signature: EnsembleSignature, options: EnsemblePlanOptions): EnsemblePlan {
  const places = tensorPlaces(signature);
  const place = (name: string) => places.get(name) ?? NEVER;
  const requested = [...new Set(options.requested.map(place))].filter((tensor) => tensor !== NEVER);
  const raw = signature.steps.map(({ inputs, outputs }) => ({
    inputs: inputs.map(({ name, tensor }) => ({ name, tensor: place(tensor) })),
    takes: [...new Set(inputs.map(({ tensor }) => place(tensor)))],
    gives: outputs.map(({ tensor }) => place(tensor)),
    names: outputs.map(({ name }) => name),
  }));
  const needed = neededSteps(raw, requested);
  const asked = new Set(requested);
  // What is handed on may be in the answer under another name, and only a worker can read what a worker keeps.
  const leaves = new Set([...asked, ...raw.flatMap(({ takes }, index) => (options.handsOn?.(index) ? takes : []))]);
  const steps = raw.map(
    ({ inputs, takes, gives, names }, index): PlannedStep => ({
      inputs,
      takes,
      gives,
      keep: names.filter((_name, at) => !leaves.has(gives[at] ?? NEVER)),
      needed: needed[index] === true,
      ordered: options.ordered?.(index) === true,
    }),
  );
  const given = new Set(steps.flatMap(({ gives }) => gives));
  const fed = [...places.values()].filter((tensor) => !given.has(tensor));
  const starts = new Map<number, IterationStart>();
  return {
    name: options.name,
    decoupled: options.decoupled,
    gated: signature.maxInflight > 0,
    steps,
    tensors: [...places].map(([name, tensor]) => ({
      name,
      takers: takers(steps, tensor),
      requested: asked.has(tensor),
    })),
    fed,
    requested,
    first: iterationStart(steps, requested, fed),
    after(step) {
      let start = starts.get(step);
      if (start === undefined) {
        start = iterationStart(steps, requested, steps[step]?.gives ?? []);
        starts.set(step, start);
      }
      return start;
    },
  };
}

/** Each tensor's name with its place, which is its turn in the map. */
function tensorPlaces({ steps }: EnsembleSignature): Map<string, number> {
  const places = new Map<string, number>();
  for (const { inputs, outputs } of steps) {
    for (const { tensor } of [...inputs, ...outputs]) if (!places.has(tensor)) places.set(tensor, places.size);
  }
  return places;
}

function takers(steps: readonly PlannedStep[], tensor: number): number[] {
  return [...steps.keys()].filter((index) => steps[index]?.needed === true && steps[index].takes.includes(tensor));
}

function neededSteps(
  steps: readonly { readonly takes: readonly number[]; readonly gives: readonly number[] }[],
  requested: readonly number[],
): boolean[] {
  const needed = steps.map(() => false);
  const wanted = new Set(requested);
  for (let grew = true; grew; ) {
    grew = false;
    for (const [index, { takes, gives }] of steps.entries()) {
      if (needed[index] === true || !gives.some((tensor) => wanted.has(tensor))) continue;
      needed[index] = true;
      grew = true;
      for (const tensor of takes) wanted.add(tensor);
    }
  }
  return needed;
}

/** What can come once these tensors are there, and nothing else from outside. */
function iterationStart(
  steps: readonly PlannedStep[],
  requested: readonly number[],
  given: readonly number[],
): IterationStart {
  const missing: number[] = steps.map(() => NEVER);
  const coming = new Set(given);
  for (let grew = true; grew; ) {
    grew = false;
    for (const [index, { takes, gives, needed }] of steps.entries()) {
      if (!needed || missing[index] !== NEVER || !takes.every((tensor) => coming.has(tensor))) continue;
      missing[index] = takes.length;
      grew = true;
      for (const tensor of gives) coming.add(tensor);
    }
  }
  return { missing, outputsMissing: requested.every((tensor) => coming.has(tensor)) ? requested.length : NEVER };
}
