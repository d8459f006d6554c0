import { createLeaving, type Leaving, type OpenedCaller } from '@nereid/caller';
import type { EnsembleSignature } from '@nereid/config';
import {
  type BatchTiming,
  CANCELLED,
  type CarriedOutcome,
  type CarriedTensor,
  DEADLINE_SLACK_MS,
  type ErrorInfo,
  errorInfo,
  isBlobTensor,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import {
  createEnsembleRun,
  type EnsembleDecision,
  type EnsembleEvent,
  type EnsemblePlan,
  type EnsembleRun,
} from '@nereid/scheduler';
import { isOfSequence, stepError, stepOutputs, stepRequest } from './ensemble-step.ts';
import type { EnsembleTensors } from './ensemble-tensors.ts';
import { createStepGates } from './step-gates.ts';
import type { OwnedRequest } from './version-queue.ts';

/** The reason of a step's error where the worker is gone that kept an input of it (caller/infer-errors). */
const TENSOR_LOST = 'tensor_lost';
/** A run begins anew so often, at most, for tensors that are gone. */
const BEGINNINGS_MAX = 3;

export interface EnsembleRunnerParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly model: string;
  readonly caller: Pick<OpenedCaller<CarriedTensor>, 'infer' | 'inferStream' | 'models' | 'tensors'>;
  readonly signature: EnsembleSignature;
  readonly tensors: EnsembleTensors;
}

/** What becomes of a run, told as it happens. */
export interface RunListener {
  /** An answer; undefined where there is only the end to tell. */
  respond(outputs: ReadonlyMap<string, CarriedTensor> | undefined, last: boolean): void;
  fail(error: ErrorInfo): void;
  /** The client's own tensors are gone. True where its request will come again: the run is dropped. */
  missing(): boolean;
}

export interface RequestRun {
  /** Sums over the steps that have run. */
  readonly timing: BatchTiming;
  /** Ends what runs; the listener is told when that has ended. */
  cancel(): void;
  /** Ends what runs, and tells nobody. */
  drop(): void;
}

/** Carries out what the rule decides of runs (scheduler/ensemble-run), by calls on the steps' models. */
export interface EnsembleRunner {
  start(request: OwnedRequest, plan: EnsemblePlan, listener: RunListener): RequestRun;
  /** Calls that wait for their step's gate. */
  readonly waiting: number;
  close(): void;
}

interface StepCall {
  /** By the rule's count, within its run. */
  readonly number: number;
  readonly step: number;
  readonly inputs: ReadonlyMap<string, CarriedTensor>;
  readonly leaving: Leaving;
  readonly go: () => void;
  /** Once it has passed the gate, or is withdrawn from it. */
  readonly sent: Promise<void>;
  /** Whoever waits for `sent` goes on. */
  readonly pass: () => void;
}

export function createEnsembleRunner(parts: EnsembleRunnerParts): EnsembleRunner {
  const { caller, clock, log, model, signature, tensors } = parts;
  const gates = createStepGates<StepCall>(clock, signature.steps.length, signature.maxInflight, (call, late) => {
    if (late) log.error({ model, step: call.step }, 'a step waited too long for max_inflight_requests and goes ahead');
    call.go();
  });

  const start = (request: OwnedRequest, plan: EnsemblePlan, listener: RunListener): RequestRun => {
    const { message } = request;
    const calls = new Map<number, StepCall>();
    /** Blobs that steps have given, until nobody in the run needs them. An ensemble among them may give one that it was given. */
    const held = new Map<string, { readonly tensor: CarriedTensor; times: number }>();
    const passedOn = new Set<string>();
    const given = blobIds(message.request.inputs);
    const timing = { waitNs: 0, inputNs: 0, inferNs: 0, outputNs: 0 };
    let run: EnsembleRun<CarriedTensor>;
    let beginnings = 0;
    let answered = false;
    let isEnding = false;
    let isDropped = false;

    const msLeft = () => {
      if (request.deadlineUs === undefined) return 0;
      return Math.max(1, (request.deadlineUs - clock.nowUs()) / 1000 - DEADLINE_SLACK_MS);
    };

    const timed = ({ inputNs, inferNs, outputNs }: BatchTiming) => {
      timing.inputNs += inputNs;
      timing.inferNs += inferNs;
      timing.outputNs += outputNs;
    };

    /** It is not at its end, and nothing of it has been answered or may have been applied to a sequence. */
    const canRepeat = () => !isEnding && !answered && !isOfSequence(message);

    const isCurrent = (call: StepCall) => calls.get(call.number) === call;

    /** Resolves once the calls that the event has led to are sent: until then its step is not to give more. */
    const step = async (event: EnsembleEvent<CarriedTensor>): Promise<void> => {
      const made: StepCall[] = [];
      for (const decision of run.step(event)) apply(decision, made);
      if (signature.maxInflight > 0) await Promise.all(made.map(({ sent }) => sent));
    };

    const apply = (decision: EnsembleDecision<CarriedTensor>, made: StepCall[]) => {
      if (isDropped) return;
      switch (decision.type) {
        case 'call':
          made.push(call(decision));
          break;
        case 'cancelCall':
          end(calls.get(decision.call));
          break;
        case 'withdraw':
          withdraw(calls.get(decision.call));
          break;
        case 'respond':
          answered = true;
          respond(decision.outputs, decision.last);
          break;
        case 'fail':
          listener.fail(decision.error);
          break;
        case 'release':
          letGo(decision.tensors);
          break;
      }
    };

    const respond = (outputs: ReadonlyMap<string, CarriedTensor> | undefined, last: boolean) => {
      let shaped: ReadonlyMap<string, CarriedTensor> | undefined;
      try {
        shaped = outputs && new Map([...outputs].map(([name, tensor]) => [name, tensors.output(tensor)]));
      } catch (error) {
        isDropped = true;
        leave(takeCalls());
        listener.fail(errorInfo(error));
        return;
      }
      for (const id of blobIds(shaped?.values() ?? [])) passedOn.add(id);
      listener.respond(shaped, last);
    };

    const call = ({
      call: number,
      step: index,
      inputs,
    }: Extract<EnsembleDecision<CarriedTensor>, { type: 'call' }>) => {
      let pass = () => {};
      const sent = new Promise<void>((resolve) => {
        pass = resolve;
      });
      const made: StepCall = {
        number,
        step: index,
        inputs,
        leaving: createLeaving(),
        sent,
        pass: () => pass(),
        go() {
          pass();
          ask(made);
        },
      };
      calls.set(number, made);
      gates.enter(made);
      return made;
    };

    const ask = (asked: StepCall) => {
      const named = signature.steps[asked.step];
      if (named === undefined) return;
      const keep = plan.steps[asked.step]?.keep ?? [];
      const inputs = [...asked.inputs].map(
        ([name, tensor]) => [name, tensors.stepInput(asked.step, name, tensor)] as const,
      );
      const made = stepRequest(message, named, asked.step, new Map(inputs), keep);
      const options = { signal: asked.leaving, msLeft: msLeft(), timed, missing: () => lost(asked) };
      const found = caller.models.find(named.model, named.version);
      if (found.ok && found.signature.decoupled) void read(asked, caller.inferStream(made, options));
      else
        void caller.infer(made, options).then((outcome) => {
          gates.leave(asked);
          return hear(asked, outcome, true, NOTHING);
        });
    };

    const read = async (asked: StepCall, answers: ReturnType<typeof caller.inferStream>) => {
      try {
        for await (const { outcome, last } of answers) {
          const heard = hear(asked, outcome, last, undefined);
          // Who leaves early cancels the rest.
          if (!outcome.ok || last) break;
          await heard;
        }
      } finally {
        gates.leave(asked);
      }
    };

    /** `nothing`: what an answer without outputs is. */
    const hear = (
      asked: StepCall,
      outcome: CarriedOutcome,
      last: boolean,
      nothing: ReadonlyMap<string, CarriedTensor> | undefined,
    ): Promise<void> | undefined => {
      const named = signature.steps[asked.step];
      if (!isCurrent(asked) || named === undefined) {
        if (outcome.ok) caller.tensors.release(outcome.response.outputs);
        return undefined;
      }
      if (last || !outcome.ok) calls.delete(asked.number);
      if (!outcome.ok && outcome.error.reason === TENSOR_LOST && beginsAnew(asked)) return undefined;
      if (!outcome.ok) {
        isEnding = true;
        return step({ type: 'failed', call: asked.number, error: stepError(outcome.error, named) });
      }
      hold(outcome.response.outputs);
      const outputs = stepOutputs(outcome.response, named) ?? nothing;
      return step({ type: 'answer', call: asked.number, outputs, last });
    };

    const hold = (tensors: readonly CarriedTensor[]) => {
      for (const tensor of tensors) {
        if (!isBlobTensor(tensor)) continue;
        const known = held.get(tensor.blob.id);
        if (known === undefined) held.set(tensor.blob.id, { tensor, times: 1 });
        else known.times++;
      }
    };

    const letGo = (tensors: Iterable<CarriedTensor>) => {
      for (const tensor of tensors) {
        const known = isBlobTensor(tensor) ? held.get(tensor.blob.id) : undefined;
        if (known !== undefined && --known.times === 0) drop(known.tensor);
      }
    };

    const drop = (tensor: CarriedTensor) => {
      if (!isBlobTensor(tensor)) return;
      const { id } = tensor.blob;
      held.delete(id);
      if (given.has(id)) return;
      if (passedOn.has(id)) caller.tensors.handOver([tensor]);
      else caller.tensors.release([tensor]);
    };

    const end = (ended: StepCall | undefined) => {
      if (!withdraw(ended)) ended?.leaving.leave('the run of its ensemble has ended');
    };

    const withdraw = (waiting: StepCall | undefined): boolean => {
      if (waiting === undefined || !gates.withdraw(waiting)) return false;
      waiting.pass();
      // Not within the rule's step.
      queueMicrotask(() => void hear(waiting, { ok: false, error: CANCELLED }, true, undefined));
      return true;
    };

    /** A worker did not find an input of the step. True where the run sees to it. */
    const lost = (asked: StepCall): boolean => {
      if (!isCurrent(asked) || !canRepeat()) return false;
      const ids = blobIds(asked.inputs.values());
      if ([...ids].some((id) => given.has(id))) return listener.missing();
      return beginsAnew(asked);
    };

    const beginsAnew = ({ step: index }: StepCall): boolean => {
      if (!canRepeat() || beginnings >= BEGINNINGS_MAX) return false;
      log.debug({ model, id: message.id, step: index }, 'a run begins anew: a tensor of it is gone');
      // What they bring from now on is of no run: an answer would go out twice.
      const left = takeCalls();
      // Not within the caller's handling of a message.
      queueMicrotask(() => {
        leave(left);
        begin();
        // Its client left meanwhile.
        if (isEnding && !isDropped) void step({ type: 'cancel' });
      });
      return true;
    };

    const takeCalls = (): readonly StepCall[] => {
      const taken = [...calls.values()];
      calls.clear();
      return taken;
    };

    const leave = (left: readonly StepCall[]) => {
      for (const each of left) {
        if (gates.withdraw(each)) each.pass();
        else each.leaving.leave('the run of its ensemble has ended');
      }
      for (const { tensor } of [...held.values()]) drop(tensor);
    };

    const begin = () => {
      if (isDropped) return;
      beginnings++;
      Object.assign(timing, { inputNs: 0, inferNs: 0, outputNs: 0 });
      run = createEnsembleRun(plan, message.request);
      const inputs = new Map(message.request.inputs.map((tensor) => [tensor.name, tensors.input(tensor)]));
      void step({ type: 'begin', inputs });
    };

    begin();
    return {
      timing,
      cancel() {
        isEnding = true;
        void step({ type: 'cancel' });
      },
      drop() {
        isDropped = true;
        leave(takeCalls());
      },
    };
  };

  return {
    start,
    get waiting() {
      return gates.waiting;
    },
    close: gates.close,
  };
}

const NOTHING: ReadonlyMap<string, CarriedTensor> = new Map();

function blobIds(tensors: Iterable<CarriedTensor>): Set<string> {
  const ids = new Set<string>();
  for (const tensor of tensors) if (isBlobTensor(tensor)) ids.add(tensor.blob.id);
  return ids;
}
