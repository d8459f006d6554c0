/** Steps of sequences on a real instance, as the worker's messages tell them. */
import type {
  DescribedMessage,
  DoneMessage,
  InferRequest,
  ProcessId,
  ResponseMessage,
  StepOrder,
} from '@nereid/protocol';
import { describe, expect, it } from 'vitest';
import { CARRIERS, EPOCH, eachWithHarness, type Harness, int32, int32Values, request, send } from './worker-harness.ts';

const GATEWAY = 'gw-test';
const SEQUENCES = `max_batch_size: 8 sequence_batching {
  oldest { max_candidate_sequences: 4 } max_sequence_idle_microseconds: 60000000 }`;
/** Answers the sum of its sequence so far; 13 throws, 66 ends its carrier, 77 waits until its sequence's next file. */
const SUMS = `
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
    return requests.map((each) => { try { return step(each); } catch (error) { return error; } });
  };`;

let harness: Harness;
let model = 'm';
let batches = 100;

interface Given extends Partial<StepOrder> {
  readonly x: number;
  readonly g: number;
  readonly session?: string;
  readonly slot?: number;
  readonly instance?: number;
  readonly sender?: ProcessId;
  readonly more?: Partial<InferRequest>;
}

/** Sends a batch of steps; the first of a session, named by it, is its START. */
function sendSteps(steps: readonly Given[], instance = 0): Promise<DoneMessage> {
  const batch = ++batches;
  const done = harness.next('done', (message) => message.batch === batch);
  send(harness.owner, {
    kind: 'execute',
    model,
    epoch: EPOCH,
    version: '1',
    batch,
    instance,
    entries: steps.map((given) => {
      const { x, g, session = `${GATEWAY}:1`, slot = 0, sender = GATEWAY, more = {} } = given;
      const { bind = { epoch: 1, n: 1 }, low = 1, prev = 0, number = -1 } = given;
      const id = `${sender}:${g}`;
      const correlationId = BigInt(session.slice(session.lastIndexOf(':') + 1));
      const sequence = { correlationId, sequenceStart: session === id, ...more };
      return {
        id,
        replyTo: GATEWAY,
        request: request([int32('X', [1, 1], [x])], sequence),
        session,
        slot,
        step: { bind, g, low, prev, number },
      };
    }),
  });
  return done;
}

const results = async (steps: readonly Given[], instance = 0) =>
  (await sendSteps(steps, instance)).entries.map(({ id, result }) => `${id.slice(id.lastIndexOf(':') + 1)} ${result}`);

/** What has been answered so far, in order. */
const answers = () =>
  harness.received
    .filter((message): message is ResponseMessage => message.kind === 'response')
    .map(({ id, outcome }) => {
      const g = id.slice(id.lastIndexOf(':') + 1);
      if (!outcome.ok) return `${g}: ${outcome.error.message}`;
      return `${g}: ${int32Values(outcome.response.outputs[0] as Parameters<typeof int32Values>[0])}`;
    });

async function describedNow(): Promise<DescribedMessage> {
  const askedAt = ++batches;
  const answer = harness.next('described', (message) => message.askedAt === askedAt);
  send(harness.owner, { kind: 'describe', model, epoch: EPOCH, askedAt });
  return answer;
}

const sessionsOf = ({ versions }: DescribedMessage) => ({
  slots: versions[0]?.slots?.map(({ session, slot, steps }) => `${session} in ${slot} after ${steps}`),
  ended: versions[0]?.ended?.map(({ session, lost }) => `${session} ${lost ? 'lost' : 'ended'}`),
});

eachWithHarness(async (made) => {
  harness = made;
  model = 'm';
  await made.javascript('m', SUMS, SEQUENCES);
  await made.load('m');
});

describe('steps of a sequence', () => {
  it('run in its slot until its END, and are described', async () => {
    expect(sessionsOf(await describedNow())).toEqual({ slots: [], ended: [] });
    expect(await results([{ x: 1, g: 1 }])).toEqual(['1 ok']);
    expect(await results([{ x: 2, g: 2 }])).toEqual(['2 ok']);
    expect((await describedNow()).versions[0]?.slots).toEqual([
      {
        instance: 0,
        slot: 0,
        session: 'gw-test:1',
        correlationId: 1n,
        bind: { epoch: 1, n: 1 },
        marks: [['gw-test', 2]],
        steps: 2,
      },
    ]);
    expect(await results([{ x: 3, g: 3, more: { sequenceEnd: true } }])).toEqual(['3 ok']);
    expect((await describedNow()).versions[0]?.ended).toEqual([
      { session: 'gw-test:1', correlationId: 1n, marks: [['gw-test', 3]], steps: 3, lost: false },
    ]);
    expect(answers()).toEqual(['1: 1', '2: 3', '3: 6']);
  });

  it('run beside those of others, each by its own rule', async () => {
    const second = { session: 'gw-test:2', slot: 1 };
    expect(
      await results([
        { x: 1, g: 1 },
        { ...second, x: 10, g: 2 },
      ]),
    ).toEqual(['1 ok', '2 ok']);
    expect(
      await results([
        { x: 1, g: 1 },
        { ...second, x: 20, g: 5 },
        { x: 5, g: 9, session: 'gw-test:3', slot: 2 },
      ]),
    ).toEqual(['5 ok', '1 replayed', '9 noslot']);
    expect(answers()).toEqual(['1: 1', '2: 10', '1: 1', '5: 30']);
  });

  it('are answered without a batch where none is to run', async () => {
    await results([{ x: 1, g: 1 }]);
    expect(await sendSteps([{ x: 1, g: 1 }])).toMatchObject({ executed: false, entries: [{ result: 'replayed' }] });
    expect(answers()).toEqual(['1: 1', '1: 1']);
  });

  it("go on after the model's own error, which is an answer", async () => {
    await results([{ x: 1, g: 1 }]);
    expect(await results([{ x: 13, g: 2 }])).toEqual(['2 error']);
    expect(await results([{ x: 13, g: 2 }])).toEqual(['2 replayed']);
    expect(await results([{ x: 4, g: 3 }])).toEqual(['3 ok']);
    expect(answers()).toEqual(['1: 1', '2: unlucky', '2: unlucky', '3: 5']);
  });
});

describe('R22: numbered steps', () => {
  it('are answered again to another gateway under its own ids, and refused out of their turn', async () => {
    await results([{ x: 1, g: 1, number: 0, more: { id: 'first' } }]);
    await results([{ x: 2, g: 2, number: 1, low: 2 }]);
    const again = harness.next('response', ({ id }) => id === 'gw-b:7');
    expect(await results([{ x: 2, g: 7, number: 1, sender: 'gw-b', more: { id: 'mine' } }])).toEqual(['7 replayed']);
    expect(await again).toMatchObject({ outcome: { ok: true, response: { id: 'mine' } } });
    expect(await results([{ x: 2, g: 8, number: 5, sender: 'gw-b' }])).toEqual(['8 refused']);
    expect(await results([{ x: 3, g: 9, number: 2, sender: 'gw-b' }])).toEqual(['9 ok']);
    expect(answers()).toEqual([
      '1: 1',
      '2: 3',
      '7: 3',
      expect.stringMatching(/^8: sequence 1 of model 'm' waits for nereid_step 2/),
      '9: 6',
    ]);
  });
});

describe('what ends sequences', () => {
  it('R19: the cancel of a step', async () => {
    await results([{ x: 1, g: 1 }]);
    const done = sendSteps([{ x: 77, g: 2 }]);
    await harness.cancel('m', ['gw-test:2']);
    expect((await done).entries).toMatchObject([{ result: 'cancelled' }]);
    expect(await results([{ x: 1, g: 3 }])).toEqual(['3 noslot']);
    expect(sessionsOf(await describedNow())).toEqual({ slots: [], ended: ['gw-test:1 ended'] });
  });

  it('its owner, which gives the slot back', async () => {
    await results([{ x: 1, g: 1 }]);
    send(harness.owner, { kind: 'free', model: 'm', epoch: EPOCH, session: 'gw-test:1' });
    expect(sessionsOf(await describedNow())).toEqual({ slots: [], ended: ['gw-test:1 ended'] });
    expect(await results([{ x: 1, g: 1, slot: -1 }])).toEqual(['1 replayed']);
  });

  it('R21: another that was bound to its slot later', async () => {
    await results([{ x: 1, g: 1 }]);
    expect(await results([{ x: 5, g: 2, session: 'gw-test:2', bind: { epoch: 1, n: 2 } }])).toEqual(['2 ok']);
    expect(sessionsOf(await describedNow())).toEqual({
      slots: ['gw-test:2 in 0 after 1'],
      ended: ['gw-test:1 ended'],
    });
  });

  it('R38: an unload, which does not wait for them, and a reload', async () => {
    await results([{ x: 1, g: 1 }]);
    const unloaded = harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    send(harness.owner, await harness.control('m', { action: 'unload', config: '', versions: [] }));
    expect(sessionsOf(await unloaded)).toEqual({ slots: [], ended: ['gw-test:1 lost'] });
    await harness.load('m');
    expect(await results([{ x: 1, g: 2 }])).toEqual(['2 lost']);
    expect(await results([{ x: 1, g: 3, session: 'gw-test:3' }])).toEqual(['3 ok']);
  });
});

describe.each(CARRIERS)('a %s that ends', (carrier, config) => {
  it('loses the sequences of its instance, none of which runs again or answers', async () => {
    model = carrier;
    await harness.javascript(model, SUMS, `${SEQUENCES} ${config} instance_group { count: 2 kind: KIND_CPU }`);
    await harness.load(model);
    await results([{ x: 1, g: 1 }]);
    await results([{ x: 1, g: 2, session: 'gw-test:2', slot: 1 }]);
    await results([{ x: 1, g: 3, session: 'gw-test:3' }], 1);
    const told = harness.described(model, ({ versions }) => versions[0]?.instances[0]?.ready === false);
    const back = harness.described(model, ({ versions }) => versions[0]?.instances[0]?.ready === true);
    expect(
      await results([
        { x: 66, g: 4 },
        { x: 1, g: 5, session: 'gw-test:5', slot: 2 },
      ]),
    ).toEqual(['4 lost', '5 lost']);
    expect(sessionsOf(await told)).toEqual({
      slots: ['gw-test:3 in 0 after 1'],
      ended: ['gw-test:2 lost', 'gw-test:1 lost', 'gw-test:5 lost'],
    });
    // The others go on, and new ones begin where the lost ones were.
    expect(await results([{ x: 2, g: 6, session: 'gw-test:3' }], 1)).toEqual(['6 ok']);
    await back;
    expect(await results([{ x: 4, g: 7, session: 'gw-test:7' }])).toEqual(['7 ok']);
    expect(await results([{ x: 4, g: 8, session: 'gw-test:2', slot: 1 }])).toEqual(['8 lost']);
    expect(answers()).toEqual(['1: 1', '2: 1', '3: 1', '6: 3', '7: 4']);
  });
});
