/**
 * Batches of steps of sequences on their way through a model: the inputs that no request has are made,
 * a batch of the direct strategy gets a row for each slot up to its highest, and the implicit states go
 * in and come out (sequence_batch_scheduler.cc, sequence_state.cc). A step takes effect once: nothing is
 * ever run a second time, and what fails leaves the states as they were.
 */
import type { BackendInstance, Batch, BatchResult } from '@nereid/backends';
import type { ModelSignature, SequenceSignature } from '@nereid/config';
import { type ErrorInfo, errorInfo, type Tensor } from '@nereid/protocol';
import { checkedExecute } from './checked-execute.ts';
import type { HeldState } from './initial-states.ts';
import type { RequestDetail } from './instance-messages.ts';
import { splitTensor } from './join-split.ts';
import { controlTensors } from './sequence-controls.ts';
import { stepRequests } from './sequence-requests.ts';
import { groupsOf, NULL_ROW, pickParts, rowsOf } from './sequence-rows.ts';
import { createSlotStates, joinStates, keepJoined, keepStates, type SlotStep } from './slot-states.ts';

type StepOutcome = Extract<BatchResult, { kind: 'each' }>['outcomes'][number];
type StepStream = Extract<StepOutcome, { [Symbol.asyncIterator]: unknown }>;
/** By position in the batch; undefined for one whose sequence its slot does not keep. */
type Steps = readonly (SlotStep | undefined)[];

export interface SequenceRunner {
  /**
   * One execution of a batch of steps, of which `details` tells the flags, ids and slots. Steps whose
   * states differ in shape cannot share a run of the model: those of each shape run together, one group
   * after the other. Throws what the backend throws, unless only a part of the batch has failed.
   */
  execute(batch: Batch, details: readonly RequestDetail[]): Promise<BatchResult>;
}

export interface SequenceRunnerParts {
  readonly signature: ModelSignature;
  readonly sequence: SequenceSignature;
  readonly instance: BackendInstance;
  /** The states at a START, in the order of the signature. */
  readonly initial: readonly HeldState[];
}

export function createSequenceRunner(parts: SequenceRunnerParts): SequenceRunner {
  const { signature, sequence, instance, initial } = parts;
  const slots = createSlotStates(sequence, initial);

  const settle = (step: SlotStep, states: readonly Tensor[] | undefined, again: boolean) => {
    if (!again) slots.leave(step);
    if (states !== undefined) keepStates(signature, step, states);
  };

  /** What a model gave for one step, whose states are taken for the next one. */
  const settled = (step: SlotStep | undefined, outcome: StepOutcome | undefined): StepOutcome => {
    if (step === undefined || outcome === undefined) return NO_OUTCOME;
    if (Symbol.asyncIterator in outcome) return settledStream(outcome, (states, again) => settle(step, states, again));
    try {
      settle(step, outcome.ok ? outcome.states : undefined, outcome.again === true);
      return outcome;
    } catch (wrong) {
      return { ok: false, error: errorInfo(wrong) };
    }
  };

  /** Runs the steps at these positions of the batch. Results are in the order of the positions. */
  const run = async (batch: Batch, steps: Steps, positions: readonly number[]): Promise<BatchResult> => {
    const rows = rowsOf(signature, steps, positions);
    const inOrder = rows.length === batch.rows.length && rows.every((position, row) => position === row);
    const [first = 0] = positions;
    const sources = inOrder ? rows : rows.map((position) => (position === NULL_ROW ? first : position));
    const rowSteps = rows.map((position) => steps[position]);
    const ones = rows.map(() => 1);
    const result = await checkedExecute(signature, instance, {
      rows: ones,
      joined: inOrder ? batch.joined : batch.joined.map((input) => pickParts(input, batch.rows, sources)),
      wantedOutputs: batch.wantedOutputs,
      ...(instance.needsRequests
        ? { requests: stepRequests(signature, batch, sources, rowSteps) }
        : { requests: [], made: madeInputs(signature, sequence, rowSteps) }),
    });
    const places = inOrder ? rows : positions.map((position) => rows.indexOf(position));
    if (result.kind === 'each') {
      return { kind: 'each', outcomes: places.map((row) => settled(rowSteps[row], result.outcomes[row])) };
    }
    keepJoined(signature, rowSteps, result.states ?? []);
    for (const step of rowSteps) if (step !== undefined) slots.leave(step);
    if (inOrder) return result;
    return { kind: 'joined', outputs: result.outputs.map((output) => pickParts(output, ones, places)) };
  };

  return {
    async execute(batch, details) {
      const steps = details.map(slots.enter);
      // A model that sees its steps one by one takes states of any shapes together.
      const groups = groupsOf(steps, instance.needsRequests);
      const [only] = groups;
      if (only?.length === steps.length) return run(batch, steps, only);
      const outcomes = details.map((detail): StepOutcome => ({ ok: false, error: notKept(signature, detail) }));
      for (const positions of groups) {
        const results = await outcomesOf(positions.length, () => run(batch, steps, positions));
        for (const [index, position] of positions.entries()) outcomes[position] = results[index] ?? NO_OUTCOME;
      }
      return { kind: 'each', outcomes };
    },
  };
}

const NO_OUTCOME: StepOutcome = {
  ok: false,
  error: { code: 'INTERNAL', message: 'the model gave no outcome for a step' },
};

/** The owner believes that a sequence is there which is not. */
function notKept({ name }: ModelSignature, [, correlationId, , , , , , , slot]: RequestDetail): ErrorInfo {
  const message = `slot ${slot} of an instance of model '${name}' does not keep sequence ${correlationId}`;
  return { code: 'INTERNAL', message };
}

function madeInputs(signature: ModelSignature, sequence: SequenceSignature, rows: Steps): Tensor[] {
  return [...controlTensors(sequence, signature.maxBatchSize > 0, rows), ...joinStates(signature, rows)];
}

/** One outcome for each of `count` steps. Never rejects. */
async function outcomesOf(count: number, run: () => Promise<BatchResult>): Promise<readonly StepOutcome[]> {
  try {
    const result = await run();
    if (result.kind === 'each') return result.outcomes;
    const ones = new Array<number>(count).fill(1);
    const split = result.outputs.map((output) => splitTensor(output, ones));
    return ones.map((_, index) => ({
      ok: true,
      response: {
        modelName: '',
        modelVersion: '',
        id: '',
        parameters: {},
        outputs: split.flatMap((parts) => parts[index] ?? []),
      },
    }));
  } catch (failure) {
    const error = errorInfo(failure);
    return new Array<StepOutcome>(count).fill({ ok: false, error });
  }
}

/** `over` gets the last that the stream told of states, and whether the step is to run again, once it ends by itself. */
function settledStream(
  stream: StepStream,
  over: (states: readonly Tensor[] | undefined, again: boolean) => void,
): StepStream {
  return {
    [Symbol.asyncIterator]() {
      const iterator = stream[Symbol.asyncIterator]();
      let states: readonly Tensor[] | undefined;
      let again = false;
      return {
        async next() {
          const step = await iterator.next();
          if (step.done === true) {
            over(states, again);
            return { done: true, value: undefined };
          }
          states = step.value.states ?? states;
          again ||= step.value.again === true;
          return { done: false, value: step.value };
        },
        async return() {
          await iterator.return?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}
