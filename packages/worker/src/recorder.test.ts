/** What a worker hands to the journal, and when, as its messages tell it. */
import { createHash } from 'node:crypto';
import type { RecordedAnswer, RecordedTensor } from '@nereid/protocol';
import type { JournalWriter, NewEnd, NewStep } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { fractionOf } from './recorder.ts';
import { createSteps, SEQUENCES, SUMS, stepAnswers } from './steps-harness.ts';
import { eachWithHarness, type Harness, int32, int32Values, request } from './worker-harness.ts';

type Journal = Pick<JournalWriter, 'send' | 'end' | 'isOver'>;

interface FakeJournal extends Journal {
  readonly steps: NewStep[];
  readonly ends: NewEnd[];
  /** Steps are kept once this has resolved. */
  held: Promise<void> | undefined;
  /** The recording that takes no more. */
  over: string;
}

let journal: FakeJournal;
const config = { share: 1, output_bytes: 1_000 };

function fakeJournal(): FakeJournal {
  const fake: FakeJournal = {
    steps: [],
    ends: [],
    held: undefined,
    over: '',
    send(steps) {
      fake.steps.push(...steps);
      return fake.held;
    },
    async end(ends) {
      fake.ends.push(...ends);
    },
    isOver: (id) => fake.over === id,
  };
  return fake;
}

/** The one that each test has. */
const writer: Journal = {
  send: (steps) => journal.send(steps),
  end: (ends) => journal.end(ends),
  isOver: (id) => journal.isOver(id),
};

let harness: Harness;
let steps: ReturnType<typeof createSteps>;

eachWithHarness(
  async (made) => {
    journal = fakeJournal();
    Object.assign(config, { share: 1, output_bytes: 1_000 });
    harness = made;
    await made.javascript('m', SUMS, SEQUENCES);
    await made.load('m');
    steps = createSteps(made, 'm');
  },
  { journal: { journal: writer, config } },
);

/** `n: x → y, effect, state` of each step handed in. */
const told = () =>
  journal.steps.map(({ step, state }) => {
    const answers = step.answers.map(answerText).join(' and ');
    return `${step.step}: ${numbersOf(step.request.inputs[0])} → ${answers}, ${step.effect}, ${state}`;
  });
const answerText = (answer: RecordedAnswer) =>
  answer.ok ? String(numbersOf(answer.outputs[0])) : answer.error.message;
const numbersOf = (tensor: RecordedTensor | undefined) =>
  tensor?.data === undefined ? [] : int32Values({ ...tensor, data: tensor.data });
const ended = () => journal.ends.map(({ id, state, worker }) => `${id} ${state} ${worker}`);

describe('a sequence that is recorded', () => {
  it('has each step with its answer and where it ran, to its END', async () => {
    await steps.ask([{ x: 1, g: 1, more: { id: 'first', parameters: { p: 5n } } }]);
    await steps.ask([{ x: 13, g: 2 }]);
    await steps.ask([{ x: 3, g: 3, number: -1, more: { sequenceEnd: true } }]);
    expect(told()).toEqual(['0: 1 → 1, applied, open', '1: 13 → unlucky, applied, open', '2: 3 → 4, applied, ended']);
    const [first] = journal.steps;
    expect(first).toMatchObject({ id: 'm~gw-test:1', model: 'm', kind: 'sequence' });
    expect(first?.step).toMatchObject({
      token: 'gw-test:1',
      modelVersion: '1',
      contentHash: 'hash',
      worker: 'wk-test',
      instance: 0,
      slot: 0,
      batchSize: 1,
      request: { id: 'first', correlationId: 1n, sequenceStart: true, sequenceEnd: false, parameters: { p: 5n } },
    });
    expect(first?.step.configSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(first?.step.timing.inferNs).toBeGreaterThan(0);
  });

  it('is answered, and its batch is over, once the journal has the step', async () => {
    let release = () => {};
    journal.held = new Promise((resolve) => {
      release = resolve;
    });
    const done = steps.ask([{ x: 1, g: 1 }]);
    await expect.poll(() => journal.steps).toHaveLength(1);
    const description = await describedNow();
    expect([stepAnswers(harness), harness.received.filter(({ kind }) => kind === 'done')]).toEqual([[], []]);
    // Its owner must not take it for lost meanwhile.
    expect(description?.instances[0]?.batches).toHaveLength(1);
    expect(harness.worker.counters()).toMatchObject({ batches: 1, requests: 1 });
    release();
    await done;
    expect(stepAnswers(harness)).toEqual(['1: 1']);
  });

  it('is that of the one whose START asks for it, whatever later steps say', async () => {
    config.share = 0;
    const other = { session: 'gw-test:2', slot: 1 };
    await steps.ask([
      { x: 1, g: 1, more: { journal: true } },
      { ...other, x: 7, g: 2 },
    ]);
    await steps.ask([
      { x: 2, g: 3, more: { journal: false } },
      { ...other, x: 8, g: 4, more: { journal: true } },
    ]);
    expect(told()).toEqual(['0: 1 → 1, applied, open', '1: 2 → 3, applied, open']);
    expect(journal.steps.map(({ step }) => step.batchSize)).toEqual([2, 2]);
  });

  it('is made no more steps of once it takes none', async () => {
    await steps.ask([{ x: 1, g: 1 }]);
    journal.over = 'm~gw-test:1';
    await steps.ask([{ x: 2, g: 2 }]);
    journal.over = '';
    await steps.ask([{ x: 3, g: 3 }]);
    expect(told()).toEqual(['0: 1 → 1, applied, open']);
  });

  it('shows the id that its requests show, which is its model’s too', async () => {
    await steps.ask([{ x: 1, g: 1, more: { shownId: 'other' } }]);
    await steps.ask([{ x: 2, g: 2, more: { shownId: 'other' } }]);
    expect(told()).toEqual(['0: 1 → 1, applied, open', '1: 2 → 3, applied, open']);
    expect(journal.steps.map(({ step }) => step.request.correlationId)).toEqual(['other', 'other']);
  });

  it('ends with the step that its carrier died of, which took no effect', async () => {
    await harness.javascript(
      'p',
      SUMS,
      `${SEQUENCES} parameters { key: "nereid.carrier" value { string_value: "process" } }`,
    );
    await harness.load('p');
    const fragile = createSteps(harness, 'p');
    await fragile.ask([
      { x: 1, g: 1 },
      { x: 5, g: 2, session: 'gw-test:2', slot: 1 },
    ]);
    await fragile.ask([{ x: 66, g: 3 }]);
    expect(told()).toEqual(['0: 1 → 1, applied, open', '0: 5 → 5, applied, open', '1: 66 → , lost, lost']);
    // The other one lost its state between two steps.
    expect(ended()).toEqual(['p~gw-test:2 lost wk-test']);
  });

  it.each([
    ['whose slot is given back', () => steps.free('gw-test:1'), 'freed'],
    ['whose model is unloaded', () => unload(), 'lost'],
  ])('%s is marked so', async (_, change, state) => {
    await steps.ask([{ x: 1, g: 1 }]);
    change();
    await expect.poll(ended).toEqual([`m~gw-test:1 ${state} wk-test`]);
  });

  it('ends with a step that was cancelled while it ran', async () => {
    await steps.ask([{ x: 1, g: 1 }]);
    const done = steps.ask([{ x: 77, g: 2 }]);
    await harness.cancel('m', ['gw-test:2']);
    await done;
    expect(told()).toEqual(['0: 1 → 1, applied, open', '1: 77 → , cancelled, cancelled']);
    expect(ended()).toEqual([]);
  });
});

describe('a request that is recorded', () => {
  it('is one recording; its outputs are digests beyond the bound, and what is to be redacted has no data', async () => {
    await harness.javascript(
      'plain',
      `export const execute = (requests) => requests.map(({ inputs }) => ({
        outputs: { Y: { datatype: 'INT32', shape: [300], data: new Int32Array(300).fill(inputs.get('X').data[0]) } },
      }));`,
      'parameters { key: "nereid.journal_redact" value { string_value: "X" } }',
    );
    await harness.load('plain');
    const { ids } = await run('plain', 7);
    const digest = createHash('sha256')
      .update(new Uint8Array(new Int32Array(300).fill(7).buffer))
      .digest('hex');
    expect(journal.steps).toMatchObject([{ id: `plain~${ids[0]}`, kind: 'request', state: 'ended' }]);
    expect(journal.steps[0]?.step).toMatchObject({ step: 0, slot: -1, effect: 'applied' });
    expect(journal.steps[0]?.step.request.inputs).toEqual([
      { name: 'X', datatype: 'INT32', shape: [1], redacted: true },
    ]);
    const [answer] = journal.steps[0]?.step.answers ?? [];
    expect(answer).toMatchObject({ ok: true, outputs: [{ name: 'Y', datatype: 'INT32', shape: [300], digest }] });
  });

  it('has all answers of a decoupled model, and neither their end nor what others do to them', async () => {
    await harness.javascript(
      'stream',
      `export const execute = (requests) => requests.map(async function* ({ inputs }) {
        for (const y of [1, 2]) yield { outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(y) } } };
      });`,
      'model_transaction_policy { decoupled: true }',
    );
    await harness.load('stream');
    await run('stream', 7);
    expect(told()).toEqual(['0: 7 → 1 and 2, applied, ended']);
  });

  it('has the answers of a decoupled model that came before it was cancelled', async () => {
    await harness.javascript(
      'stream',
      `export const execute = (requests) => requests.map(async function* ({ signal }) {
        yield { outputs: { Y: { datatype: 'INT32', shape: [1], data: Int32Array.of(1) } } };
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      });`,
      'model_transaction_policy { decoupled: true }',
    );
    await harness.load('stream');
    const { ids, over } = harness.start('stream', [request([int32('X', [1], [7])])]);
    await expect.poll(() => harness.received.some(({ kind }) => kind === 'response')).toBe(true);
    await harness.cancel('stream', ids);
    await over;
    expect(told()).toEqual(['0: 7 → 1, cancelled, cancelled']);
  });

  it('took no effect where its carrier died of it, unlike those that were beside it', async () => {
    await harness.javascript(
      'dies',
      `export const execute = (requests) => requests.map(({ inputs }) => {
        if (inputs.get('X').data[0] === 66) process.exit(1);
        return { outputs: {} };
      });`,
      'max_batch_size: 8',
    );
    await harness.load('dies');
    const row = (x: number) => request([int32('X', [1, 1], [x])]);
    await harness.start('dies', [row(66), row(1)]).over;
    const [lost, beside] = journal.steps;
    expect([lost?.state, lost?.step.effect, lost?.step.answers]).toEqual(['lost', 'lost', []]);
    expect(numbersOf(lost?.step.request.inputs[0])).toEqual([66]);
    expect([beside?.state, beside?.step.effect]).toEqual(['ended', 'applied']);
  });

  it.each([
    ['the model says off and it does not ask', 'off', undefined, 0],
    ['the model says off and it asks', 'off', true, 1],
    ['the model says on', 'on', undefined, 1],
    ['the model says on and it asks not to be', 'on', false, 0],
  ])('%s', async (_, said, asked, count) => {
    const answer = `export const execute = (requests) => requests.map(() => ({ outputs: {} }));`;
    await harness.javascript('quiet', answer, `parameters { key: "nereid.journal" value { string_value: "${said}" } }`);
    await harness.load('quiet');
    await run('quiet', 1, asked);
    expect(journal.steps).toHaveLength(count);
  });
});

describe('the share of a name', () => {
  it('is spread evenly, and the same each time', () => {
    const shares = Array.from({ length: 10_000 }, (_, index) => fractionOf(`gw-1a2b:${index}`));
    expect(shares.every((share) => share >= 0 && share < 1)).toBe(true);
    for (const share of [0.01, 0.1, 0.5]) {
      const below = shares.filter((each) => each < share).length;
      expect(Math.abs(below / shares.length - share)).toBeLessThan(0.02);
    }
    expect(fractionOf('gw-1a2b:1')).toBe(shares[1]);
  });
});

async function run(model: string, x: number, asked?: boolean) {
  const given = request([int32('X', [1], [x])], asked === undefined ? {} : { journal: asked });
  const { ids, over } = harness.start(model, [given]);
  await over;
  return { ids };
}

function unload(): void {
  harness.owner.send('wk-test', {
    kind: 'control',
    model: 'm',
    epoch: { number: 1, owner: 'co-test' },
    action: 'unload',
    config: '',
    versions: [],
    contentHash: '',
  });
}

async function describedNow() {
  await steps.sessions();
  const last = harness.received.findLast((message) => message.kind === 'described');
  return last?.kind === 'described' ? last.versions[0] : undefined;
}
