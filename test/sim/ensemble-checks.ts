/** What must hold of each run of an ensemble, whatever comes in which order. */
import type { EnsembleDecision, EnsembleEvent } from '@nereid/scheduler';
import { answerText, callKey, type DrawnEnsemble, evaluate } from './ensemble-graphs.ts';

/** A tensor of a run, one object for each time that one is made. */
export interface Piece {
  readonly name: string;
  readonly text: string;
}

export type EnsembleCheck =
  /** Which steps are called, each once in an iteration. */
  | 'calls'
  /** What is answered. */
  | 'answers'
  /** In which order, where models keep it. */
  | 'order'
  /** A run ends once, and with nothing running. */
  | 'outcome'
  /** The first error decides, and nothing is called after it. */
  | 'error'
  | 'cancel'
  /** Each tensor goes once, and neither too early nor too late. */
  | 'release'
  /** max_inflight_requests. */
  | 'gate'
  /** All ends. */
  | 'liveness';

export interface EnsembleViolation {
  readonly check: EnsembleCheck;
  readonly what: string;
}

export interface RunChecks {
  told(event: EnsembleEvent<Piece>): void;
  decided(event: EnsembleEvent<Piece>, decisions: readonly EnsembleDecision<Piece>[]): void;
  end(): void;
}

export function createRunChecks(
  ensemble: DrawnEnsemble,
  seed: number,
  fed: ReadonlyMap<string, string>,
  report: (violation: EnsembleViolation) => void,
): RunChecks {
  /** Not released; how many calls that took it are over. */
  const live = new Map<Piece, number>();
  const running = new Map<number, { readonly step: number; readonly inputs: readonly Piece[]; isCancelled: boolean }>();
  /** Calls that came before the one it is an answer to, of a step that keeps their order: it is not looked at before. */
  const early = new Map<Piece, readonly number[]>();
  const called = new Set<string>();
  const keys: string[] = [];
  const answers: string[] = [];
  const expected = evaluate(ensemble, seed, fed);
  let failure: string | undefined;
  let isOver = false;
  let calls = 0;

  const found = (check: EnsembleCheck, what: string) => report({ check, what });
  const isRequested = ({ name }: Piece) => ensemble.requested.includes(name);
  const isTaken = (piece: Piece) => [...running.values()].some(({ inputs }) => inputs.includes(piece));
  /** Steps that take it and that something which was asked for depends on. */
  const takers = ({ name }: Piece) =>
    ensemble.steps.filter((step) => step.takes.includes(name) && leads(ensemble, step.gives)).length;
  const pieces = new Map<Piece, number>();
  const number = (piece: Piece) => {
    const known = pieces.get(piece) ?? pieces.size;
    pieces.set(piece, known);
    return known;
  };

  const onCall = (decision: Extract<EnsembleDecision<Piece>, { type: 'call' }>) => {
    const { call, step, inputs } = decision;
    if (failure !== undefined) found('error', `step ${step} called after ${failure}`);
    if (call !== calls++) found('calls', `call ${call} is told as number ${calls - 1}`);
    const taken = [...inputs.values()];
    const key = `${step} ${taken.map(number)}`;
    if (taken.length > 0 && called.has(key)) found('calls', `step ${step} called twice with the same`);
    called.add(key);
    keys.push(callKey(step, new Map(taken.map(({ name, text }) => [name, text]))));
    for (const piece of taken)
      if (!live.has(piece)) found('release', `step ${step} takes ${piece.text}, which is gone`);
    running.set(call, { step, inputs: taken, isCancelled: false });
  };

  const onRespond = ({ outputs, last }: Extract<EnsembleDecision<Piece>, { type: 'respond' }>) => {
    if (failure !== undefined) found('error', `an answer after ${failure}`);
    for (const piece of outputs?.values() ?? []) {
      if (!live.has(piece)) found('release', `${piece.text} is answered and gone`);
    }
    if (outputs !== undefined) answers.push(answerText(new Map([...outputs].map(([name, { text }]) => [name, text]))));
    if (last) onOver();
  };

  const onOver = () => {
    isOver = true;
    if (running.size > 0) found('outcome', `over while ${running.size} calls run`);
  };

  const onFail = (message: string) => {
    onOver();
    if (message !== failure) found('error', `failed with ${message} after ${failure}`);
  };

  const onRelease = (piece: Piece) => {
    if (isTaken(piece)) found('release', `${piece.text} is gone while a call runs with it`);
    if (!live.delete(piece)) found('release', `${piece.text} goes twice`);
  };

  const decide = (decision: EnsembleDecision<Piece>) => {
    if (isOver && decision.type !== 'release') found('outcome', `${decision.type} when all was over`);
    if (decision.type === 'call') onCall(decision);
    else if (decision.type === 'respond') onRespond(decision);
    else if (decision.type === 'fail') onFail(decision.error.message);
    else if (decision.type === 'release') for (const piece of decision.tensors) onRelease(piece);
    else if (decision.type === 'cancelCall') {
      const call = running.get(decision.call);
      if (call !== undefined) call.isCancelled = true;
    }
  };

  const checkKept = () => {
    for (const [piece, ended] of live) {
      if (failure === undefined && early.get(piece)?.some((call) => running.has(call))) continue;
      const isNeeded =
        failure !== undefined ? isTaken(piece) : isRequested(piece) || ended < takers(piece) || isTaken(piece);
      if (isOver || !isNeeded) found('release', `${piece.text} is kept for nobody`);
    }
  };

  const before = (call: number): number[] => {
    const step = running.get(call)?.step ?? -1;
    if (ensemble.steps[step]?.ordered !== true) return [];
    return [...running].filter(([other, of]) => of.step === step && other < call).map(([other]) => other);
  };

  return {
    told(event) {
      if (event.type === 'begin') for (const piece of event.inputs.values()) live.set(piece, 0);
      if (event.type === 'answer') {
        for (const piece of event.outputs?.values() ?? []) {
          live.set(piece, 0);
          early.set(piece, before(event.call));
        }
      }
      if (event.type === 'cancel') failure ??= 'Request cancelled';
      if (event.type === 'failed') failure ??= `in ensemble 'e', ${event.error.message}`;
      if (event.type === 'failed' || (event.type === 'answer' && event.last)) {
        for (const piece of new Set(running.get(event.call)?.inputs)) live.set(piece, (live.get(piece) ?? 0) + 1);
        running.delete(event.call);
      }
    },
    decided(event, decisions) {
      for (const decision of decisions) decide(decision);
      checkKept();
      if (event.type !== 'cancel') return;
      for (const [call, { isCancelled }] of running) if (!isCancelled) found('cancel', `call ${call} goes on`);
    },
    end() {
      if (!isOver) found('liveness', `${running.size} calls and no end`);
      const due = [...expected.answers];
      for (const answer of answers) {
        const at = due.indexOf(answer);
        if (at < 0) found('answers', `${answer} is none of ${expected.answers}`);
        else due.splice(at, 1);
      }
      if (failure !== undefined) return;
      if (due.length > 0) found('answers', `no answer ${due}`);
      if (keys.sort().join() !== expected.calls.sort().join()) found('calls', `${keys} in place of ${expected.calls}`);
      if (ensemble.isOrdered && answers.join() !== expected.answers.join()) found('order', answers.join());
    },
  };
}

function leads(ensemble: DrawnEnsemble, gives: readonly string[]): boolean {
  return gives.some(
    (name) =>
      ensemble.requested.includes(name) ||
      ensemble.steps.some((next) => next.takes.includes(name) && leads(ensemble, next.gives)),
  );
}
