import { CANCELLED, type ErrorInfo, withRequestId } from '@nereid/protocol';
import { type EnsemblePlan, type IterationStart, NEVER, type PlannedStep } from './ensemble-plan.ts';

export type EnsembleEvent<T> =
  /** The first event. By the ensemble's names; one that the client left out is left out. */
  | { readonly type: 'begin'; readonly inputs: ReadonlyMap<string, T> }
  /**
   * An answer to a call, by the ensemble's names of its tensors; an output that the model left out is left out. Undefined
   * where only the end of the answers was told (Triton's empty final response).
   */
  | {
      readonly type: 'answer';
      readonly call: number;
      readonly outputs: ReadonlyMap<string, T> | undefined;
      readonly last: boolean;
    }
  /** The call has ended with this error, also one that was cancelled or withdrawn. */
  | { readonly type: 'failed'; readonly call: number; readonly error: ErrorInfo }
  /** Nobody waits for the request any more. */
  | { readonly type: 'cancel' };

export type EnsembleDecision<T> =
  /** Call the step's model; by the model's names of its inputs. Calls of a run are numbered from 0. */
  | { readonly type: 'call'; readonly call: number; readonly step: number; readonly inputs: ReadonlyMap<string, T> }
  /** Cancel the call, sent or not, and tell of its end all the same. */
  | { readonly type: 'cancelCall'; readonly call: number }
  /** If the call still waits for its step's gate: do not send it, and tell that it failed. Of gated ensembles only. */
  | { readonly type: 'withdraw'; readonly call: number }
  /** An answer to the client, by the ensemble's names; undefined where there is only the end to tell. */
  | { readonly type: 'respond'; readonly outputs: ReadonlyMap<string, T> | undefined; readonly last: boolean }
  | { readonly type: 'fail'; readonly error: ErrorInfo }
  /** Nothing in this run needs these any more. The last decision of its event. */
  | { readonly type: 'release'; readonly tensors: readonly T[] };

export interface EnsembleRun<T> {
  step(event: EnsembleEvent<T>): readonly EnsembleDecision<T>[];
  /** It has responded for the last time, or failed: no call runs and no tensor is held. */
  readonly over: boolean;
}

/** A tensor that somebody in its iteration still needs. */
interface Held<T> {
  readonly tensor: T;
  /** Steps that take it and have not ended, and the answer. */
  needs: number;
}

interface Iteration<T> {
  /** By step: tensors that it waits for; `NEVER` once it was called, or cannot be. */
  readonly missing: number[];
  /** Outputs that its answer waits for; 0 where the answer is ready, `NEVER` once it was given, or cannot be. */
  outputsMissing: number;
  readonly held: Map<number, Held<T>>;
  /** Running in it. */
  calls: number;
}

interface Call<T> {
  readonly number: number;
  readonly step: number;
  readonly iteration: Iteration<T>;
  /** It has answered. */
  answered: boolean;
  /** What it took is not needed for it any more. */
  spent: boolean;
  /** Came before an earlier call of an ordered step was over. */
  readonly early: { readonly outputs: ReadonlyMap<string, T> | undefined; readonly last: boolean }[];
}

/** As in Triton, where somebody has asked for outputs that nothing gave (EnsembleContext::FinishEnsemble). */
const DEADLOCK: ErrorInfo = {
  code: 'INVALID_ARG',
  message: 'unexpected deadlock, at least one output is not set while no more ensemble steps can be made',
};

/**
 * One request of an ensemble (Triton's EnsembleContext, ensemble_scheduler.cc): which steps to call, what to answer.
 *
 * **Iterations.** All tensors of a plain run are of one iteration. A decoupled step's first answer stays in the iteration
 * of its call and each further one begins another, in which only what depends on that answer comes. So steps and answers
 * join tensors of one answer only, however fast the branches are. Triton counts a tensor's values as they come and joins
 * equal counts, which mixes answers up where a step's model does not keep the order.
 *
 * **A step** is called once in an iteration, when each tensor that it takes is there or is known to be left out, by the
 * client or by the model that should give it. It is called without those: whether it can do so, its model says.
 *
 * **The answer** of an iteration goes out when each requested output is there or known to be left out; that of an
 * ensemble that is not decoupled, when nothing runs any more, so that it is the only one. In Triton the doors wait so.
 *
 * **Errors**: the first one decides. Nothing is called after it, what runs is waited for, and the run fails with it.
 */
export function createEnsembleRun<T>(plan: EnsemblePlan, client: { readonly id: string }): EnsembleRun<T> {
  const running = new Map<number, Call<T>>();
  const iterations = new Set<Iteration<T>>();
  /** By ordered step: its calls that are not over. */
  const lines = new Map<number, Set<Call<T>>>();
  let calls = 0;
  let failure: ErrorInfo | undefined;
  let over = false;
  let decisions: EnsembleDecision<T>[] = [];
  let answers: ReadonlyMap<string, T>[] = [];
  let released: T[] = [];

  const planned = (step: number): PlannedStep => plan.steps[step] as PlannedStep;

  const unneed = (iteration: Iteration<T>, tensors: readonly number[]) => {
    for (const tensor of tensors) {
      const held = iteration.held.get(tensor);
      if (held === undefined || --held.needs > 0) continue;
      iteration.held.delete(tensor);
      released.push(held.tensor);
    }
  };

  const begin = ({ missing, outputsMissing }: IterationStart): Iteration<T> => {
    const iteration = { missing: [...missing], outputsMissing, held: new Map<number, Held<T>>(), calls: 0 };
    iterations.add(iteration);
    return iteration;
  };

  const call = (iteration: Iteration<T>, step: number) => {
    iteration.missing[step] = NEVER;
    const { inputs: mapped, ordered } = planned(step);
    const inputs = new Map<string, T>();
    for (const { name, tensor } of mapped) {
      const held = iteration.held.get(tensor);
      if (held !== undefined) inputs.set(name, held.tensor);
    }
    const made: Call<T> = { number: calls++, step, iteration, answered: false, spent: false, early: [] };
    running.set(made.number, made);
    iteration.calls++;
    if (ordered) line(step).add(made);
    decisions.push({ type: 'call', call: made.number, step, inputs });
  };

  const line = (step: number): Set<Call<T>> => {
    const known = lines.get(step);
    if (known !== undefined) return known;
    const made = new Set<Call<T>>();
    lines.set(step, made);
    return made;
  };

  /** Gives the iteration these tensors; those that `values` lacks are left out from now on. */
  const settle = (iteration: Iteration<T>, tensors: readonly number[], values: ReadonlyMap<string, T>) => {
    const ready: number[] = [];
    for (const tensor of tensors) {
      const { name, takers, requested } = plan.tensors[tensor] as EnsemblePlan['tensors'][number];
      let needs = 0;
      for (const step of takers) {
        const missing = iteration.missing[step] ?? NEVER;
        if (missing === NEVER) continue;
        needs++;
        iteration.missing[step] = missing - 1;
        if (missing === 1) ready.push(step);
      }
      if (requested && iteration.outputsMissing !== NEVER) {
        needs++;
        iteration.outputsMissing--;
      }
      const value = values.get(name);
      if (value === undefined) continue;
      if (needs === 0) released.push(value);
      else iteration.held.set(tensor, { tensor: value, needs });
    }
    for (const step of ready.sort((a, b) => a - b)) call(iteration, step);
    if (plan.decoupled && iteration.outputsMissing === 0) answer(iteration);
    if (iteration.calls === 0) leave(iteration);
  };

  const answer = (iteration: Iteration<T>) => {
    iteration.outputsMissing = NEVER;
    const outputs = new Map<string, T>();
    for (const tensor of plan.requested) {
      const held = iteration.held.get(tensor);
      if (held !== undefined) outputs.set(plan.tensors[tensor]?.name ?? '', held.tensor);
    }
    unneed(iteration, plan.requested);
    answers.push(outputs);
  };

  /** These tensors do not come in the iteration, nor does what depends on them. */
  const miss = (iteration: Iteration<T>, tensors: readonly number[]) => {
    for (const tensor of tensors) {
      const { takers, requested } = plan.tensors[tensor] as EnsemblePlan['tensors'][number];
      for (const step of takers) if (iteration.missing[step] !== NEVER) giveUp(iteration, step);
      if (requested) giveUpAnswer(iteration);
    }
  };

  const giveUp = (iteration: Iteration<T>, step: number) => {
    iteration.missing[step] = NEVER;
    unneed(iteration, planned(step).takes);
    miss(iteration, planned(step).gives);
  };

  const giveUpAnswer = (iteration: Iteration<T>) => {
    if (iteration.outputsMissing === NEVER) return;
    iteration.outputsMissing = NEVER;
    unneed(iteration, plan.requested);
  };

  /** Nothing runs in it: what it still holds waits for the answer. */
  const leave = (iteration: Iteration<T>) => {
    if (iteration.held.size === 0 && iteration.outputsMissing === NEVER) iterations.delete(iteration);
  };

  const spend = (from: Call<T>) => {
    if (!from.spent) unneed(from.iteration, planned(from.step).takes);
    from.spent = true;
  };

  const end = (ended: Call<T>) => {
    const { number, step, iteration, answered } = ended;
    running.delete(number);
    iteration.calls--;
    spend(ended);
    if (!answered) miss(iteration, planned(step).gives);
    if (iteration.calls === 0) leave(iteration);
    const waiting = lines.get(step);
    if (waiting?.delete(ended) !== true) return;
    const [next] = waiting;
    for (const early of next?.early.splice(0) ?? []) take(next as Call<T>, early.outputs, early.last);
  };

  const take = (from: Call<T>, outputs: ReadonlyMap<string, T> | undefined, last: boolean) => {
    if (outputs !== undefined) {
      if (failure !== undefined) released.push(...outputs.values());
      else settle(from.answered ? begin(plan.after(from.step)) : from.iteration, planned(from.step).gives, outputs);
      from.answered = true;
    }
    if (last) end(from);
  };

  const hear = (from: Call<T>, outputs: ReadonlyMap<string, T> | undefined, last: boolean) => {
    const [first] = lines.get(from.step) ?? [];
    if (failure !== undefined || first === undefined || first === from) return take(from, outputs, last);
    from.early.push({ outputs, last });
    if (last) spend(from);
  };

  /** Nothing is called and nothing answered from now on. */
  const stop = (error: ErrorInfo) => {
    failure = error;
    for (const iteration of iterations) {
      for (const [step, missing] of iteration.missing.entries()) if (missing !== NEVER) giveUp(iteration, step);
      giveUpAnswer(iteration);
    }
    for (const from of [...running.values()]) {
      for (const early of from.early.splice(0)) take(from, early.outputs, early.last);
    }
  };

  const fail = ({ code, message, reason }: ErrorInfo) => {
    const wrapped = { code, message: `in ensemble '${plan.name}', ${message}` };
    stop(reason === undefined ? wrapped : { ...wrapped, reason });
  };

  const finish = () => {
    over = true;
    for (const iteration of iterations) if (iteration.outputsMissing === 0 && failure === undefined) answer(iteration);
    if (failure === undefined && answers.length === 0 && !plan.decoupled) fail(withRequestId(client, DEADLOCK));
    for (const iteration of iterations) {
      for (const { tensor } of iteration.held.values()) released.push(tensor);
      iteration.held.clear();
    }
    iterations.clear();
  };

  const hearEvent = (event: EnsembleEvent<T>) => {
    if (event.type === 'begin') return settle(begin(plan.first), plan.fed, event.inputs);
    if (event.type === 'cancel') {
      if (failure === undefined) stop(CANCELLED);
      for (const number of running.keys()) decisions.push({ type: 'cancelCall', call: number });
      return;
    }
    const from = running.get(event.call);
    if (from === undefined) return;
    if (event.type === 'answer') return hear(from, event.outputs, event.last);
    const first = failure === undefined;
    if (first) fail(event.error);
    end(from);
    if (first && plan.gated) for (const number of running.keys()) decisions.push({ type: 'withdraw', call: number });
  };

  return {
    get over() {
      return over;
    },
    step(event) {
      if (over) return [];
      decisions = [];
      answers = [];
      released = [];
      hearEvent(event);
      if (running.size === 0) finish();
      for (const [index, outputs] of answers.entries()) {
        decisions.push({ type: 'respond', outputs, last: over && index === answers.length - 1 });
      }
      if (over && failure !== undefined) decisions.push({ type: 'fail', error: failure });
      else if (over && answers.length === 0) decisions.push({ type: 'respond', outputs: undefined, last: true });
      if (released.length > 0) decisions.push({ type: 'release', tensors: released });
      return decisions;
    },
  };
}
