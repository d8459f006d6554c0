/** For tests: steps of sequences to the worker of a harness, and what it says of them. */
import type {
  CarriedRequest,
  DescribedMessage,
  DoneMessage,
  ProcessId,
  ResponseMessage,
  StepOrder,
} from '@nereid/protocol';
import { EPOCH, type Harness, int32, int32Values, request } from './worker-harness.ts';

const GATEWAY = 'gw-test';
export const SEQUENCES = `max_batch_size: 8 sequence_batching {
  oldest { max_candidate_sequences: 4 } max_sequence_idle_microseconds: 60000000 }`;
/** Answers the sum of its sequence so far; 13 throws, 66 ends its carrier, 77 takes a while, 88 has no end. */
export const SUMS = `
  const sums = new Map();
  const step = ({ inputs, correlationId, flags }) => {
    const x = inputs.get('X').data[0];
    if (x === 66) process.exit(1);
    if (x === 13) throw new Error('unlucky');
    const sum = (flags & 1 ? 0 : (sums.get(correlationId) ?? -1000)) + x;
    sums.set(correlationId, sum);
    return { outputs: { Y: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(sum) } } };
  };
  export const execute = async (requests) => {
    if (requests.some(({ inputs }) => inputs.get('X').data[0] === 77)) await new Promise((go) => setTimeout(go, 100));
    if (requests.some(({ inputs }) => inputs.get('X').data[0] === 88)) await new Promise(() => {});
    return requests.map((each) => { try { return step(each); } catch (error) { return error; } });
  };`;

export interface GivenStep extends Partial<StepOrder> {
  readonly x: number;
  readonly g: number;
  readonly session?: string;
  readonly slot?: number;
  readonly sender?: ProcessId;
  readonly more?: Partial<CarriedRequest>;
}

let batches = 100;

/** Steps of that model. A session is named by its START's id, `gw-test:1` by default; its correlation id is the number in it. */
export function createSteps(harness: Harness, model: string, worker: ProcessId = 'wk-test') {
  const ask = (steps: readonly GivenStep[], instance = 0): Promise<DoneMessage> => {
    const batch = ++batches;
    const done = harness.next('done', (message) => message.batch === batch);
    const entries = steps.map((given) => {
      const { x, g, session = `${GATEWAY}:1`, slot = 0, sender = GATEWAY, more = {} } = given;
      const { bind = { epoch: 1, n: 1 }, low = 1, prev = 0, number = -1 } = given;
      const id = `${sender}:${g}`;
      const sequence = { correlationId: BigInt(session.slice(GATEWAY.length + 1)), sequenceStart: session === id };
      const inputs = [int32('X', [1, 1], [x])];
      const order = { bind, g, low, prev, number };
      return { id, replyTo: GATEWAY, request: { ...request(inputs, sequence), ...more }, session, slot, step: order };
    });
    harness.owner.send(worker, { kind: 'execute', model, epoch: EPOCH, version: '1', batch, instance, entries });
    return done;
  };

  return {
    ask,
    /** As `ask`: each step's g and result. */
    async results(steps: readonly GivenStep[], instance = 0): Promise<readonly string[]> {
      const done = await ask(steps, instance);
      return done.entries.map(({ id, result }) => `${gOf(id)} ${result}`);
    },
    free: (session: string) => harness.owner.send(worker, { kind: 'free', model, epoch: EPOCH, session }),
    /** Asks for it; sessions with their slots and steps, and those that have ended. */
    async sessions() {
      const askedAt = ++batches;
      const answer = harness.next('described', (message) => message.askedAt === askedAt);
      harness.owner.send(worker, { kind: 'describe', model, epoch: EPOCH, askedAt });
      return sessionsOf(await answer);
    },
  };
}

export function sessionsOf({ versions }: DescribedMessage) {
  const [first] = versions;
  return {
    slots: first?.slots?.map(({ session, slot, steps }) => `${session} in ${slot} after ${steps}`),
    ended: first?.ended?.map(({ session, lost }) => `${session} ${lost ? 'lost' : 'ended'}`),
  };
}

/** What has been answered so far, in order: each step's g, and the value or error of each part of its answer. */
export function stepAnswers({ received }: Harness): readonly string[] {
  return received
    .filter((message): message is ResponseMessage => message.kind === 'response')
    .map(({ id, outcome, chunk }) => {
      const at = chunk === 0 ? '' : `+${chunk}`;
      if (!outcome.ok) return `${gOf(id)}${at}: ${outcome.error.message}`;
      const [output] = outcome.response.outputs;
      return `${gOf(id)}${at}: ${output !== undefined && 'data' in output ? int32Values(output) : 'over'}`;
    });
}

function gOf(id: string): string {
  return id.slice(id.lastIndexOf(':') + 1);
}
