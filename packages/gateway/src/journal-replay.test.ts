import type { ErrorInfo, InferRequest, Outcome, RecordedStep } from '@nereid/protocol';
import { virtualClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { failure, int32, outputs, recordedStep, recordingOf } from './journal-fixture.ts';
import { type ReplayEnd, type ReplayEvent, type ReplayParts, type ReplayPlan, replay } from './journal-replay.ts';

const ID = 'm~gw-0:1';
const STEPS = [recordedStep(0), recordedStep(1), recordedStep(2), recordedStep(3, { request: { sequenceEnd: true } })];
const EXACT = { pace: 0, from: 0, replace: undefined, tolerance: 'exact', record: false, stopAtFirst: false } as const;

/** A model that gives its input back as recorded, but for what the test says of it. */
function world(steps: readonly RecordedStep[], wishes: Partial<ReplayPlan> = {}) {
  const clock = virtualClock();
  const leaving = new AbortController();
  const sent: InferRequest[] = [];
  const sentMs: number[] = [];
  const evicted: string[] = [];
  const answers = new Map<number, readonly Outcome[]>();
  let tookMs = 1;
  const parts: ReplayParts = {
    clock,
    refusal: () => null,
    async *infer(request, signal, mark) {
      mark.id = `gw-1:${sent.length + 1}`;
      sent.push(request);
      sentMs.push(clock.nowUs() / 1000);
      clock.advanceUs(tookMs * 1000);
      if (signal.aborted) yield { ok: false, error: { code: 'CANCELLED', message: 'left' } };
      else yield* answers.get(sent.length - 1) ?? [echo(request)];
    },
    evict: async (session) => void evicted.push(session),
  };
  const recording = recordingOf(ID, steps);
  const given = {
    version: '1',
    correlationId: 'replay-1',
    showsOwnId: false,
    until: steps.length,
    ...EXACT,
    ...wishes,
  };
  const plan: ReplayPlan = { recording, steps: each(steps), ...given };
  const events: ReplayEvent[] = [];
  const run = async () => {
    for await (const event of replay(parts, plan, leaving.signal)) events.push(event);
    return events.at(-1) as ReplayEnd;
  };
  return {
    clock,
    leaving,
    parts,
    plan,
    sent,
    sentMs,
    evicted,
    answers,
    events,
    run,
    takes: (ms: number) => {
      tookMs = ms;
    },
  };
}

async function* each(steps: readonly RecordedStep[]): AsyncGenerator<RecordedStep> {
  yield* steps;
}

function echo({ inputs }: InferRequest): Outcome {
  const response = { modelName: 'm', modelVersion: '1', id: '', parameters: {} };
  return { ok: true, response: { ...response, outputs: inputs.map((input) => ({ ...input, name: 'OUTPUT' })) } };
}

const no = (code: ErrorInfo['code'], message = 'no', more: Partial<ErrorInfo> = {}): Outcome => ({
  ok: false,
  error: { code, message, ...more },
});
const output = (value: number) => echo({ inputs: [int32('INPUT', value)] } as unknown as InferRequest);

describe('a replay', () => {
  it('runs the steps as a sequence of its own, which shows the recorded id, and compares each', async () => {
    const steps = STEPS.map((step) => ({
      ...step,
      request: { ...step.request, sequenceStep: step.step, timeoutUs: 5_000n },
    }));
    const { run, events, sent, evicted } = world(steps);
    expect(await run()).toEqual({
      ...{ type: 'end', result: 'equal', steps: 4, compared: 4, session: 'gw-1:1' },
      ...{ firstDifference: undefined, failure: undefined },
    });
    expect(events.slice(0, 4)).toEqual(
      [0, 1, 2, 3].map((step) => ({ type: 'step', step, tookMs: 1, difference: undefined })),
    );
    const flags = {
      modelName: 'm',
      modelVersion: '1',
      correlationId: 'replay-1',
      shownId: 5n,
      journal: false,
      timeoutUs: 0n,
    };
    expect(sent).toMatchObject([
      { ...flags, sequenceStart: true, sequenceEnd: false },
      { ...flags, sequenceStart: false, inputs: [int32('INPUT', 1)] },
      flags,
      { ...flags, sequenceEnd: true },
    ]);
    expect(sent.every(({ sequenceStep }) => sequenceStep === undefined)).toBe(true);
    // The last step has ended it.
    expect(evicted).toEqual([]);
  });

  it('keeps the id of a single request, which no sequence has', async () => {
    const steps = [recordedStep(0, { request: { correlationId: 7n, sequenceStart: false } })];
    const { run, sent, evicted, plan } = world(steps);
    Object.assign(plan, { recording: recordingOf(ID, steps, { kind: 'request' }), record: true });
    expect(await run()).toMatchObject({ result: 'equal', session: 'gw-1:1' });
    expect(sent[0]).toMatchObject({ correlationId: 7n, shownId: 7n, journal: true });
    expect(evicted).toEqual([]);
  });

  it('goes on behind a step that differs, and tells the first', async () => {
    const { run, events, answers } = world(STEPS);
    answers.set(1, [output(8)]).set(2, [output(9)]);
    const first = { step: 1, kind: 'value', output: 'OUTPUT', index: [0, 0], recorded: 1, replayed: 8 };
    expect(await run()).toMatchObject({ result: 'differs', steps: 4, compared: 4, firstDifference: first });
    expect(events.map((event) => event.type === 'step' && event.difference?.step)).toEqual([
      undefined,
      1,
      2,
      undefined,
      false,
    ]);
  });

  it('stops at the first that differs where that is asked for, and leaves no sequence', async () => {
    const { run, sent, answers, evicted } = world(STEPS, { stopAtFirst: true });
    answers.set(1, [output(8)]);
    expect(await run()).toMatchObject({ result: 'differs', steps: 2, compared: 2 });
    expect([sent.length, evicted]).toEqual([2, ['gw-1:1']]);
  });

  it('compares from one step on, before another, and runs those before', async () => {
    const { run, events, sent, answers, evicted } = world(STEPS, { from: 2, until: 3 });
    answers.set(0, [output(8)]);
    expect(await run()).toMatchObject({ result: 'equal', steps: 3, compared: 1 });
    expect(events[0]).toMatchObject({ type: 'step', step: 2 });
    expect([sent.length, evicted]).toEqual([3, ['gw-1:1']]);
  });

  it('replaces inputs of one step by name', async () => {
    const steps = STEPS.map((step) => {
      return { ...step, request: { ...step.request, inputs: [...step.request.inputs, int32('OTHER', 3)] } };
    });
    const { run, sent } = world(steps, { replace: { step: 1, inputs: [int32('OTHER', 4)] } });
    await run();
    expect(sent.map(({ inputs }) => inputs[1])).toEqual([3, 4, 3, 3].map((value) => int32('OTHER', value)));
    expect(sent.map(({ inputs }) => inputs[0])).toEqual([0, 1, 2, 3].map((value) => int32('INPUT', value)));
  });

  it('takes a redacted input only where it is replaced', async () => {
    const redacted = { name: 'INPUT', datatype: 'INT32', shape: [1, 1], redacted: true } as const;
    const steps = [recordedStep(0, { request: { inputs: [redacted] } })];
    const refused = world(steps);
    expect(await refused.run()).toMatchObject({
      result: 'failed',
      steps: 0,
      failure: {
        step: 0,
        error: {
          code: 'INVALID_ARG',
          field: 'replace',
          message: expect.stringMatching(/is redacted: give another one in 'replace', or record again without/),
        },
      },
    });
    expect(refused.sent).toEqual([]);
    expect(await world(steps, { replace: { step: 0, inputs: [int32('INPUT', 0)] } }).run()).toMatchObject({
      result: 'equal',
    });
  });

  it.each(['lost', 'cancelled'] as const)('leaves out a step that was %s', async (effect) => {
    const steps = [recordedStep(0), recordedStep(1, { effect, answers: [] })];
    const { run, sent, evicted } = world(steps);
    expect(await run()).toMatchObject({ result: 'equal', steps: 1, compared: 1 });
    expect([sent.length, evicted]).toEqual([1, ['gw-1:1']]);
    expect(await world(steps, { from: 1 }).run()).toMatchObject({ result: 'failed', failure: { step: 1 } });
  });

  it('tells where a recording goes away meanwhile', async () => {
    const { run, evicted } = world(STEPS.slice(0, 2), { until: 4 });
    expect(await run()).toMatchObject({
      result: 'failed',
      steps: 2,
      failure: { step: 2, error: { code: 'NOT_FOUND' } },
    });
    expect(evicted).toEqual(['gw-1:1']);
  });
});

describe('errors', () => {
  const ERROR = { code: 'INTERNAL', message: 'it broke' } as const;
  const withError = (error: ErrorInfo) => [
    recordedStep(0),
    recordedStep(1, { answers: [failure(error)] }),
    recordedStep(2),
  ];

  it.each([
    ['the same', ERROR, no('INTERNAL', 'it broke'), 'equal'],
    ['another text', ERROR, no('INTERNAL', 'it broke down'), 'differs'],
    ['none', ERROR, output(1), 'differs'],
    [
      'the same, though it is one that servers give',
      { code: 'UNAVAILABLE', message: 'no' },
      no('UNAVAILABLE'),
      'equal',
    ],
    ['a full queue', ERROR, no('UNAVAILABLE', 'Exceeds maximum queue size'), 'failed'],
    ['a lost sequence', ERROR, no('INVALID_ARG', 'gone', { reason: 'sequence_lost' }), 'failed'],
    [
      'the START error',
      ERROR,
      no(
        'INVALID_ARG',
        "inference request for sequence replay-1 to model 'm' must specify the START flag on the first request of the sequence",
      ),
      'failed',
    ],
    ['a model that goes away', ERROR, no('NOT_FOUND'), 'failed'],
    ['a wrong argument, says the model', ERROR, no('INVALID_ARG'), 'differs'],
  ] as const)('where one was recorded and there is %s', async (_, recorded, replayed, result) => {
    const { run, answers, sent, evicted } = world(withError(recorded));
    answers.set(1, [replayed]);
    expect((await run()).result).toBe(result);
    expect(sent).toHaveLength(result === 'failed' ? 2 : 3);
    expect(evicted).toEqual(['gw-1:1']);
  });

  it('of the door end it before the step is sent', async () => {
    const { run, parts, sent, evicted } = world(STEPS);
    const error: ErrorInfo = { code: 'INVALID_ARG', message: 'unexpected shape', field: 'inputs[0].shape' };
    Object.assign(parts, { refusal: () => (sent.length === 1 ? error : null) });
    expect(await run()).toMatchObject({ result: 'failed', steps: 1, failure: { step: 1, error } });
    expect([sent.length, evicted]).toEqual([1, ['gw-1:1']]);
  });

  it('of the server at the last step leave no sequence', async () => {
    const { run, answers, evicted } = world(STEPS);
    answers.set(3, [no('UNAVAILABLE')]);
    expect(await run()).toMatchObject({ result: 'failed', steps: 3 });
    expect(evicted).toEqual(['gw-1:1']);
  });
});

describe('a stream', () => {
  const [one, two] = [output(1), output(2)];
  const recorded = [outputs(int32('OUTPUT', 1)), outputs(int32('OUTPUT', 2))];

  it.each([
    ['the same answers', [one, two], { result: 'equal' }],
    ['another', [one, output(3)], { firstDifference: { kind: 'value', answer: 1 } }],
    ['fewer', [one], { firstDifference: { kind: 'answers', recorded: 2, replayed: 1 } }],
    ['more', [one, two, two, two], { firstDifference: { kind: 'answers', recorded: 2, replayed: 3 } }],
    ['a break', [one, no('UNAVAILABLE', 'lost', { reason: 'stream_broken' })], { result: 'failed' }],
  ])('of %s', async (_, replayed, expected) => {
    const { run, answers } = world([recordedStep(0, { answers: recorded })]);
    answers.set(0, replayed);
    expect(await run()).toMatchObject(expected);
  });
});

describe('the pace', () => {
  const at = (...receivedMs: number[]) => receivedMs.map((ms, step) => recordedStep(step, { receivedMs: ms }));
  const times = at(5_000, 5_100, 5_400, 5_410);

  it.each([
    ['flat', 0, 0, 1, [0, 1, 2, 3]],
    ['as recorded', 1, 0, 1, [0, 100, 400, 410]],
    ['twice as fast', 2, 0, 1, [0, 50, 200, 205]],
    ['half as fast', 0.5, 0, 1, [0, 200, 800, 820]],
    ['as recorded from the first that is compared', 1, 2, 1, [0, 1, 2, 12]],
    ['as recorded, where steps take longer', 1, 0, 150, [0, 150, 400, 550]],
  ])('is %s', async (_, pace, from, tookMs, expected) => {
    const { run, clock, sentMs, takes } = world(times, { pace, from });
    takes(tookMs);
    let over = false;
    const ended = run().finally(() => {
      over = true;
    });
    while (!over) {
      for (let turns = 0; turns < 50; turns++) await Promise.resolve();
      if (clock.liveTimers > 0) clock.advanceUs(500);
    }
    expect((await ended).result).toBe('equal');
    expect(sentMs).toEqual(expected);
    expect(clock.liveTimers).toBe(0);
  });
});

describe('a client that leaves', () => {
  it('before its first step sends nothing', async () => {
    const { run, leaving, sent, evicted } = world(STEPS);
    leaving.abort();
    expect(await run()).toMatchObject({ result: 'failed', failure: { step: 0, error: { code: 'CANCELLED' } } });
    expect([sent, evicted]).toEqual([[], []]);
  });

  it('while a step runs ends it, and leaves no sequence', async () => {
    const { run, leaving, clock, sent, evicted } = world(STEPS);
    clock.at(1_500, () => leaving.abort());
    expect(await run()).toMatchObject({
      result: 'failed',
      steps: 1,
      failure: { step: 1, error: { code: 'CANCELLED' } },
    });
    expect([sent.length, evicted]).toEqual([2, ['gw-1:1']]);
  });

  it('between two steps ends it, also while it waits for its time', async () => {
    const { run, leaving, clock, sent, evicted } = world(STEPS, { pace: 1 });
    const ended = run();
    while (clock.liveTimers === 0) await Promise.resolve();
    leaving.abort();
    expect(await ended).toMatchObject({ result: 'failed', steps: 1 });
    expect([sent.length, evicted, clock.liveTimers]).toEqual([1, ['gw-1:1'], 0]);
  });

  it('by reading no more ends it', async () => {
    const { parts, plan, leaving, sent, evicted } = world(STEPS);
    for await (const event of replay(parts, plan, leaving.signal)) if (event.type === 'step') break;
    expect([sent.length, evicted]).toEqual([1, ['gw-1:1']]);
  });
});
