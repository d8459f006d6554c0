/** Requests of one ensemble under a seed, at the same time: answers in any order, errors, cancels, and gates between. */
import { seededRandom } from '@nereid/runtime';
import {
  createEnsembleRun,
  createStepGate,
  type EnsembleDecision,
  type EnsembleEvent,
  type EnsemblePlan,
  type EnsembleRun,
  planEnsemble,
  type StepGate,
} from '@nereid/scheduler';
import { createRunChecks, type EnsembleViolation, type Piece, type RunChecks } from './ensemble-checks.ts';
import { count, type DrawnEnsemble, drawEnsemble, drawInputs, modelFate, signatureOf } from './ensemble-graphs.ts';
import { pick } from './sim-models.ts';

/** The rules that are played, which may be wrong. */
export interface EnsembleRules {
  readonly plan: typeof planEnsemble;
  readonly createRun: (plan: EnsemblePlan) => EnsembleRun<Piece>;
  readonly createGate: typeof createStepGate<LiveCall>;
}

export const RIGHT_RULES: EnsembleRules = {
  plan: planEnsemble,
  createRun: (plan) => createEnsembleRun(plan, { id: '' }),
  createGate: createStepGate,
};

/** A call that is not over. */
export interface LiveCall {
  readonly run: PlayedRun;
  readonly number: number;
  readonly step: number;
  /** What its model is still to say. */
  readonly events: EnsembleEvent<Piece>[];
  isSent: boolean;
  /** Calls that were made of its last answer and wait for their gates: until they are sent the next is not read. */
  readonly holds: Set<LiveCall>;
}

interface PlayedRun {
  readonly rule: EnsembleRun<Piece>;
  readonly checks: RunChecks;
  readonly calls: Map<number, LiveCall>;
}

const WAIT_MAX_US = 300_000_000;
const CANCEL_SHARE = 0.01;
const CANCELS_SHARE = 0.3;
const ERROR = { code: 'CANCELLED', message: 'ended' } as const;

export function playEnsembles(seed: number, rules: EnsembleRules) {
  const random = seededRandom(seed);
  const ensemble = drawEnsemble(random);
  const violations: EnsembleViolation[] = [];
  const counts = { call: 0, respond: 0, fail: 0, cancelCall: 0, withdraw: 0, release: 0, waited: 0 };
  const plan = rules.plan(signatureOf(ensemble), {
    name: 'e',
    requested: ensemble.requested,
    decoupled: ensemble.decoupled,
    ordered: (step) => ensemble.steps[step]?.ordered === true,
  });
  const gates = ensemble.steps.map(() =>
    rules.createGate({ inflight_max: ensemble.maxInflight, wait_max_us: WAIT_MAX_US }),
  );
  const sent = new Map<number, number>();
  const lines = ensemble.steps.map((): LiveCall[] => []);
  const live = new Set<LiveCall>();

  const send = (call: LiveCall) => {
    call.isSent = true;
    for (const other of live) other.holds.delete(call);
    const inflight = (sent.get(call.step) ?? 0) + 1;
    sent.set(call.step, inflight);
    if (ensemble.maxInflight > 0 && inflight > ensemble.maxInflight) {
      violations.push({ check: 'gate', what: `${inflight} calls of step ${call.step}` });
    }
  };

  const admit = (call: LiveCall, cause: LiveCall | undefined) => {
    const { gate, line } = gateOf(call.step);
    if (gate.enter(call, 0)) return send(call);
    counts.waited++;
    line.push(call);
    cause?.holds.add(call);
  };

  const gateOf = (step: number) => ({ gate: gates[step] as StepGate<LiveCall>, line: lines[step] as LiveCall[] });

  const over = (call: LiveCall) => {
    call.run.calls.delete(call.number);
    live.delete(call);
    if (!call.isSent) return;
    const { gate, line } = gateOf(call.step);
    sent.set(call.step, (sent.get(call.step) ?? 0) - 1);
    const next = gate.leave();
    if (next === undefined) return;
    if (line.shift() !== next) violations.push({ check: 'gate', what: `step ${call.step}: not the first that came` });
    send(next);
  };

  /** One that waits for its gate leaves it, and is over. */
  const withdraw = (call: LiveCall) => {
    const { gate, line } = gateOf(call.step);
    if (!gate.withdraw(call)) return;
    line.splice(line.indexOf(call), 1);
    for (const other of live) other.holds.delete(call);
    tell(call.run, { type: 'failed', call: call.number, error: ERROR }, call);
  };

  const made = (run: PlayedRun, decision: Extract<EnsembleDecision<Piece>, { type: 'call' }>): LiveCall => {
    const inputs = new Map([...decision.inputs.values()].map(({ name, text }) => [name, text]));
    const events = eventsOf(ensemble, seed, decision, inputs);
    return { run, number: decision.call, step: decision.step, events, isSent: false, holds: new Set() };
  };

  const tell = (run: PlayedRun, event: EnsembleEvent<Piece>, cause: LiveCall | undefined) => {
    run.checks.told(event);
    if (cause !== undefined && isLast(event)) over(cause);
    const decisions = run.rule.step(event);
    run.checks.decided(event, decisions);
    for (const decision of decisions) {
      counts[decision.type]++;
      if (decision.type === 'call') {
        const call = made(run, decision);
        run.calls.set(call.number, call);
        live.add(call);
        admit(call, cause);
      } else if (decision.type === 'cancelCall' || decision.type === 'withdraw') {
        const call = run.calls.get(decision.call);
        if (call !== undefined && !call.isSent) withdraw(call);
        else if (decision.type === 'cancelCall' && random.next() < 0.5) {
          call?.events.splice(0, Number.POSITIVE_INFINITY, { type: 'failed', call: call.number, error: ERROR });
        }
      }
    }
  };

  const runs = Array.from({ length: count(random, 1, 4) }, (_, request): PlayedRun => {
    const fed = drawInputs(ensemble, random, request);
    const checks = createRunChecks(ensemble, seed, fed, (violation) => violations.push(violation));
    const run = { rule: rules.createRun(plan), checks, calls: new Map<number, LiveCall>() };
    const inputs = new Map([...fed].map(([name, text]) => [name, { name, text }]));
    tell(run, { type: 'begin', inputs }, undefined);
    return run;
  });
  const cancels = random.next() < CANCELS_SHARE;
  while (violations.length === 0) {
    const ready = [...live].filter((call) => call.isSent && call.holds.size === 0 && call.events.length > 0);
    if (ready.length === 0) break;
    if (cancels && random.next() < CANCEL_SHARE * runs.length) tell(pick(random, runs), { type: 'cancel' }, undefined);
    else deliver(pick(random, ready), tell);
  }
  for (const { checks } of runs) checks.end();
  return { violations, counts, ensemble: JSON.stringify(ensemble) };
}

function deliver(
  call: LiveCall,
  tell: (run: PlayedRun, event: EnsembleEvent<Piece>, cause: LiveCall | undefined) => void,
): void {
  const event = call.events.shift();
  if (event !== undefined) tell(call.run, event, call);
}

function isLast(event: EnsembleEvent<Piece>): boolean {
  return event.type === 'failed' || (event.type === 'answer' && event.last);
}

function eventsOf(
  ensemble: DrawnEnsemble,
  seed: number,
  { call, step }: { readonly call: number; readonly step: number },
  inputs: ReadonlyMap<string, string>,
): EnsembleEvent<Piece>[] {
  const { fails, answers, endsAlone } = modelFate(ensemble, seed, step, inputs);
  if (fails) return [{ type: 'failed', call, error: { code: 'INTERNAL', message: `step ${step} fails` } }];
  const events = answers.map((answer, index): EnsembleEvent<Piece> => {
    const outputs = new Map([...answer].map(([name, text]) => [name, { name, text }]));
    return { type: 'answer', call, outputs, last: !endsAlone && index === answers.length - 1 };
  });
  if (endsAlone) events.push({ type: 'answer', call, outputs: undefined, last: true });
  return events;
}
