/** Steps of sequences on a real instance, as the worker's messages tell them. */
import { LIMITS } from '@nereid/config';
import { describe, expect, it } from 'vitest';
import { createSteps, SEQUENCES, SUMS, sessionsOf, stepAnswers } from './steps-harness.ts';
import {
  CARRIERS,
  createHarness,
  eachWithHarness,
  type Harness,
  int32Values,
  responseOf,
  send,
} from './worker-harness.ts';

let harness: Harness;
let steps: ReturnType<typeof createSteps>;

/** The version as it was described last, unasked or not. */
async function describedNow() {
  await steps.sessions();
  const last = harness.received.findLast((message) => message.kind === 'described');
  return last?.kind === 'described' ? last.versions[0] : undefined;
}

eachWithHarness(async (made) => {
  harness = made;
  await made.javascript('m', SUMS, SEQUENCES);
  await made.load('m');
  steps = createSteps(made, 'm');
});

describe('steps of a sequence', () => {
  it('run in its slot until its END, and are described', async () => {
    expect(await steps.sessions()).toEqual({ slots: [], ended: [] });
    expect(await steps.results([{ x: 1, g: 1 }])).toEqual(['1 ok']);
    expect(await steps.results([{ x: 2, g: 2 }])).toEqual(['2 ok']);
    expect((await describedNow())?.slots).toEqual([
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
    expect(await steps.results([{ x: 3, g: 3, more: { sequenceEnd: true } }])).toEqual(['3 ok']);
    expect((await describedNow())?.ended).toEqual([
      { session: 'gw-test:1', correlationId: 1n, marks: [['gw-test', 3]], steps: 3, lost: false },
    ]);
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: 3', '3: 6']);
  });

  it('run beside those of others, each by its own rule', async () => {
    const second = { session: 'gw-test:2', slot: 1 };
    expect(
      await steps.results([
        { x: 1, g: 1 },
        { ...second, x: 10, g: 2 },
      ]),
    ).toEqual(['1 ok', '2 ok']);
    expect(
      await steps.results([
        { x: 1, g: 1 },
        { ...second, x: 20, g: 5 },
        { x: 5, g: 9, session: 'gw-test:3', slot: 2 },
      ]),
    ).toEqual(['5 ok', '1 replayed', '9 noslot']);
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: 10', '1: 1', '5: 30']);
  });

  it('are answered without a batch where none is to run', async () => {
    await steps.results([{ x: 1, g: 1 }]);
    expect(await steps.ask([{ x: 1, g: 1 }])).toMatchObject({ executed: false, entries: [{ result: 'replayed' }] });
    expect(stepAnswers(harness)).toEqual(['1: 1', '1: 1']);
  });

  it("go on after the model's own error, which is an answer", async () => {
    await steps.results([{ x: 1, g: 1 }]);
    expect(await steps.results([{ x: 13, g: 2 }])).toEqual(['2 error']);
    expect(await steps.results([{ x: 13, g: 2 }])).toEqual(['2 replayed']);
    expect(await steps.results([{ x: 4, g: 3 }])).toEqual(['3 ok']);
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: unlucky', '2: unlucky', '3: 5']);
  });
});

describe('R22: numbered steps', () => {
  it('are answered again to another gateway under its own ids, and refused out of their turn', async () => {
    await steps.results([{ x: 1, g: 1, number: 0, more: { id: 'first' } }]);
    await steps.results([{ x: 2, g: 2, number: 1, low: 2 }]);
    const again = harness.next('response', ({ id }) => id === 'gw-b:7');
    expect(await steps.results([{ x: 2, g: 7, number: 1, sender: 'gw-b', more: { id: 'mine' } }])).toEqual([
      '7 replayed',
    ]);
    expect(await again).toMatchObject({ outcome: { ok: true, response: { id: 'mine' } } });
    expect(await steps.results([{ x: 2, g: 8, number: 5, sender: 'gw-b' }])).toEqual(['8 refused']);
    expect(await steps.results([{ x: 3, g: 9, number: 2, sender: 'gw-b' }])).toEqual(['9 ok']);
    expect(stepAnswers(harness)).toEqual([
      '1: 1',
      '2: 3',
      '7: 3',
      expect.stringMatching(/^8: sequence 1 of model 'm' waits for nereid_step 2/),
      '9: 6',
    ]);
  });
});

describe('R20: what is kept of answers', () => {
  it('is not changed by whoever was sent them', async () => {
    // One with a parameter travels in a buffer of its own.
    const source = SUMS.replace('return { outputs', 'return { parameters: { own: true }, outputs');
    await harness.javascript('own', source, SEQUENCES);
    await harness.load('own');
    const own = createSteps(harness, 'own');
    for (const expected of ['1 ok', '1 replayed', '1 replayed']) {
      expect(await own.results([{ x: 7, g: 1 }])).toEqual([expected]);
      const sent = harness.received.findLast((message) => message.kind === 'response');
      const [output] = sent?.kind === 'response' ? responseOf(sent.outcome).outputs : [];
      expect(int32Values(output)).toEqual([7]);
      output?.data.fill(255);
    }
  });

  it('counts the texts of errors', async () => {
    const small = await createHarness({ limits: { ...LIMITS, sequence_answer_bytes_max: 1_000 } });
    const source = SUMS.replace("'unlucky'", "'unlucky'.repeat(200)");
    await small.javascript('m', source, SEQUENCES);
    await small.load('m');
    const its = createSteps(small, 'm');
    await its.results([{ x: 1, g: 1 }]);
    expect(await its.results([{ x: 13, g: 2 }])).toEqual(['2 error']);
    expect(await its.results([{ x: 13, g: 2 }])).toEqual(['2 lost']);
    expect(await small.close()).toMatchObject({ batches: 0, threads: 0 });
  });
});

describe('R29: a step whose data were gone', () => {
  const gone = [
    { name: 'X', datatype: 'INT32', shape: [1, 1], blob: { place: 'file', id: 'gone', bytes: 4 } },
  ] as const;

  it('changes nothing; a START leaves its slot to others', async () => {
    const inputs = { inputs: gone };
    expect(await steps.results([{ x: 1, g: 1, more: inputs }])).toEqual(['1 blob']);
    expect(await steps.sessions()).toEqual({ slots: [], ended: [] });
    expect(await steps.results([{ x: 1, g: 1 }])).toEqual(['1 ok']);
    expect(await steps.results([{ x: 2, g: 2, more: inputs }])).toEqual(['2 blob']);
    expect(await steps.results([{ x: 2, g: 2 }])).toEqual(['2 ok']);
    // What was done needs no data to be answered again.
    expect(await steps.results([{ x: 2, g: 2, more: inputs }])).toEqual(['2 replayed']);
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: 3', '2: 3']);
  });
});

describe('what ends sequences', () => {
  it('an execution that takes too long, which is not tried again', async () => {
    const timeout = 'parameters { key: "nereid.execution_timeout_ms" value { string_value: "800" } }';
    await harness.javascript('late', SUMS, `${SEQUENCES} ${timeout}`);
    await harness.load('late');
    const late = createSteps(harness, 'late');
    await late.results([{ x: 1, g: 1 }]);
    expect(await late.results([{ x: 88, g: 2 }])).toEqual(['2 lost']);
    expect(await late.sessions()).toEqual({ slots: [], ended: ['gw-test:1 lost'] });
    expect(stepAnswers(harness)).toEqual(['1: 1']);
  });

  it('R19: the cancel of a step', async () => {
    await steps.results([{ x: 1, g: 1 }]);
    const done = steps.ask([{ x: 77, g: 2 }]);
    await harness.cancel('m', ['gw-test:2']);
    expect((await done).entries).toMatchObject([{ result: 'cancelled' }]);
    expect(await steps.results([{ x: 1, g: 3 }])).toEqual(['3 noslot']);
    expect(await steps.sessions()).toEqual({ slots: [], ended: ['gw-test:1 ended'] });
  });

  it('its owner, which gives the slot back', async () => {
    await steps.results([{ x: 1, g: 1 }]);
    steps.free('gw-test:1');
    expect(await steps.sessions()).toEqual({ slots: [], ended: ['gw-test:1 ended'] });
    expect(await steps.results([{ x: 1, g: 1, slot: -1 }])).toEqual(['1 replayed']);
  });

  it('R21: another that was bound to its slot later', async () => {
    await steps.results([{ x: 1, g: 1 }]);
    expect(await steps.results([{ x: 5, g: 2, session: 'gw-test:2', bind: { epoch: 1, n: 2 } }])).toEqual(['2 ok']);
    expect(await steps.sessions()).toEqual({
      slots: ['gw-test:2 in 0 after 1'],
      ended: ['gw-test:1 ended'],
    });
  });

  it('R38: an unload, which does not wait for them, and a reload', async () => {
    await steps.results([{ x: 1, g: 1 }]);
    const unloaded = harness.described('m', ({ versions }) => versions[0]?.reason === 'unloaded');
    send(harness.owner, await harness.control('m', { action: 'unload', config: '', versions: [] }));
    expect(sessionsOf(await unloaded)).toEqual({ slots: [], ended: ['gw-test:1 lost'] });
    await harness.load('m');
    expect(await steps.results([{ x: 1, g: 2 }])).toEqual(['2 lost']);
    expect(await steps.results([{ x: 1, g: 3, session: 'gw-test:3' }])).toEqual(['3 ok']);
  });
});

describe.each(CARRIERS)('a %s that ends', (carrier, config) => {
  it('loses the sequences of its instance, none of which runs again or answers', async () => {
    const model = carrier;
    await harness.javascript(model, SUMS, `${SEQUENCES} ${config} instance_group { count: 2 kind: KIND_CPU }`);
    await harness.load(model);
    steps = createSteps(harness, model);
    await steps.results([{ x: 1, g: 1 }]);
    await steps.results([{ x: 1, g: 2, session: 'gw-test:2', slot: 1 }]);
    await steps.results([{ x: 1, g: 3, session: 'gw-test:3' }], 1);
    const told = harness.described(model, ({ versions }) => versions[0]?.instances[0]?.ready === false);
    const back = harness.described(model, ({ versions }) => versions[0]?.instances[0]?.ready === true);
    expect(
      await steps.results([
        { x: 66, g: 4 },
        { x: 1, g: 5, session: 'gw-test:5', slot: 2 },
      ]),
    ).toEqual(['4 lost', '5 lost']);
    expect(sessionsOf(await told)).toEqual({
      slots: ['gw-test:3 in 0 after 1'],
      ended: ['gw-test:2 lost', 'gw-test:1 lost', 'gw-test:5 lost'],
    });
    // The others go on, and new ones begin where the lost ones were.
    expect(await steps.results([{ x: 2, g: 6, session: 'gw-test:3' }], 1)).toEqual(['6 ok']);
    await back;
    expect(await steps.results([{ x: 4, g: 7, session: 'gw-test:7' }])).toEqual(['7 ok']);
    expect(await steps.results([{ x: 4, g: 8, session: 'gw-test:2', slot: 1 }])).toEqual(['8 lost']);
    expect(stepAnswers(harness)).toEqual(['1: 1', '2: 1', '3: 1', '6: 3', '7: 4']);
  });
});
