import type { AliasRoute, CallOptions } from '@nereid/caller';
import type { AliasShadow } from '@nereid/config';
import { CANCELLED, type InferRequest, type Outcome, REQUEST_DEFAULTS, type Tensor } from '@nereid/protocol';
import { createLog, virtualClock } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { createShadows, type ShadowLimits } from './shadows.ts';

const LIMITS: ShadowLimits = {
  shadow_requests_max: 2,
  shadow_bytes_max: 100,
  shadow_sequences_max: 2,
  shadow_wait_ms: 1_000,
};

const tensor = (value: number): Tensor => ({
  name: 'V',
  datatype: 'FP32',
  shape: [1],
  data: new Uint8Array(Float32Array.of(value).buffer),
});
const request = (more: Partial<InferRequest> = {}): InferRequest => ({
  ...REQUEST_DEFAULTS,
  modelName: 'a',
  inputs: [tensor(1)],
  ...more,
});
const answer = (value: number, modelVersion = '1'): Outcome => ({
  ok: true,
  response: { modelName: 'a', modelVersion, id: '', parameters: {}, outputs: [tensor(value)] },
});
const UNAVAILABLE: Outcome = { ok: false, error: { code: 'UNAVAILABLE', message: 'no worker' } };

interface Copy {
  readonly request: InferRequest;
  readonly answer: (outcome: Outcome) => void;
  left: boolean;
}

/** Shadows whose copies a test answers. */
function fixture(shadow: Partial<AliasShadow> = {}, limits: Partial<ShadowLimits> = {}) {
  const clock = virtualClock();
  const events: string[] = [];
  const copies: Copy[] = [];
  const evicted: string[] = [];
  const shadows = createShadows({
    clock,
    log: createLog({ level: 'silent' }),
    limits: { ...LIMITS, ...limits },
    infer: (copied, { signal, mark }) =>
      new Promise((resolve) => {
        events.push(`copy ${copied.modelVersion}`);
        if (mark !== undefined) mark.id = `gw:${copies.length + 1}`;
        const copy: Copy = { request: copied, answer: resolve, left: false };
        signal?.addEventListener('abort', () => {
          copy.left = true;
          resolve({ ok: false, error: CANCELLED });
        });
        copies.push(copy);
      }),
    evict: async (session) => void evicted.push(session),
  });
  const alias = { name: 'a', model: 'm', versions: [], shadow: { version: '2', share: 1, ...shadow } };
  let requests = 0;
  /** A client's request, with how its answer is given. */
  const ask = (of: InferRequest, version = '1', isStep = false) => {
    let give: (outcome: Outcome) => void = () => {};
    const key = isStep ? `a\ns${of.correlationId}` : `a\n${++requests}`;
    const answered = shadows.infer(of, (routed: NonNullable<CallOptions['routed']>) => {
      events.push('sent');
      routed({ alias, version, key, isStep } satisfies AliasRoute);
      return new Promise((resolve) => {
        give = resolve;
      });
    });
    void answered.then(() => events.push('answered'));
    return { answered, give };
  };
  const counts = () => shadows.told('a').counts;
  const step = (correlationId: bigint, more: Partial<InferRequest> = {}) =>
    ask(request({ correlationId, ...more }), '1', true);
  return { clock, events, copies, evicted, shadows, ask, step, counts };
}

const settled = () => new Promise<void>((resolve) => setTimeout(resolve));

describe('a copy', () => {
  it('is sent behind the request, which it keeps waiting for nothing', async () => {
    const { events, copies, ask, counts, clock } = fixture();
    const { answered, give } = ask(request());
    expect(events).toEqual(['sent', 'copy 2']);
    give(answer(1));
    await answered;
    await settled();
    expect([events.at(-1), counts().equal]).toEqual(['answered', 0]);
    copies[0]?.answer(answer(1, '2'));
    await settled();
    expect(counts()).toEqual({ equal: 1, different: 0, failed: 0, dropped: 0, skipped: 0 });
    expect(clock.liveTimers).toBe(0);
  });

  it('asks for what the client asks for, in the background and with tensors of its own', () => {
    const { copies, ask } = fixture();
    const asked = request({ id: 'r', timeoutUs: 5n, priority: 3n, requestedOutputs: ['V'] });
    ask(asked);
    expect(copies[0]?.request).toEqual({
      ...asked,
      modelName: 'm',
      modelVersion: '2',
      timeoutUs: 0n,
      journal: false,
      background: true,
    });
    expect(copies[0]?.request.inputs[0]).not.toBe(asked.inputs[0]);
  });

  it('is not sent of what goes to its version, nor beyond its share', () => {
    const same = fixture();
    same.ask(request(), '2');
    expect(same.copies).toEqual([]);
    const none = fixture({ share: 0 });
    none.ask(request());
    expect(none.copies).toEqual([]);
    const half = fixture({ share: 0.5 }, { shadow_requests_max: 1_000, shadow_bytes_max: 100_000 });
    for (let count = 0; count < 400; count++) half.ask(request());
    expect(half.copies.length).toBeGreaterThan(140);
    expect(half.copies.length).toBeLessThan(260);
  });

  it.each<[string, Outcome, Outcome, object, Partial<AliasShadow>]>([
    ['equal', answer(1), answer(1, '2'), { equal: 1 }, {}],
    ['another value', answer(1), answer(1.5, '2'), { different: 1 }, {}],
    ['near enough', answer(1), answer(1.5, '2'), { equal: 1 }, { atol: 0.5 }],
    ['near enough, by its size', answer(100), answer(101, '2'), { equal: 1 }, { rtol: 0.01 }],
    [
      'an error in place of an answer',
      answer(1),
      { ok: false, error: { code: 'INTERNAL', message: 'no' } },
      { different: 1 },
      {},
    ],
    ['no answer', answer(1), UNAVAILABLE, { failed: 1 }, {}],
    ['an answer where the client got none', UNAVAILABLE, answer(1, '2'), { skipped: 1 }, {}],
  ])('%s', async (_what, client, copied, results, shadow) => {
    const { copies, ask, counts } = fixture(shadow);
    const { give } = ask(request());
    copies[0]?.answer(copied);
    give(client);
    await settled();
    expect(counts()).toMatchObject(results);
  });

  it('tells the last differences, the newest first', async () => {
    const { copies, ask, shadows } = fixture();
    for (let count = 0; count < 12; count++) {
      const { give } = ask(request({ id: `r${count}` }));
      copies[count]?.answer(answer(2, '2'));
      give(answer(1));
      await settled();
    }
    const { differences } = shadows.told('a');
    expect(differences).toHaveLength(10);
    expect(differences[0]).toMatchObject({
      ...{ requestId: 'r11', version: '1', shadowVersion: '2', kind: 'value', output: 'V' },
      ...{ recorded: 1, replayed: 2 },
    });
  });

  it('beyond the bounds of requests and bytes is dropped, and room comes back', async () => {
    const { copies, ask, counts } = fixture();
    const [first] = [ask(request()), ask(request()), ask(request())];
    expect([copies.length, counts().dropped]).toEqual([2, 1]);
    copies[0]?.answer(answer(1, '2'));
    first?.give(answer(1));
    await settled();
    ask(request());
    expect(copies.length).toBe(3);
    const large = fixture({}, { shadow_bytes_max: 3 });
    large.ask(request());
    expect([large.copies.length, large.counts().dropped]).toEqual([0, 1]);
  });

  it('that never comes is cancelled after its time, and at the stop', async () => {
    const late = fixture();
    late.ask(request()).give(answer(1));
    late.clock.advanceUs(LIMITS.shadow_wait_ms * 1000);
    await settled();
    expect([late.copies[0]?.left, late.counts().failed]).toEqual([true, 1]);
    const stopped = fixture();
    stopped.ask(request());
    stopped.shadows.close();
    expect([stopped.copies[0]?.left, stopped.clock.liveTimers]).toEqual([true, 1]);
    stopped.ask(request()).give(answer(1));
    await settled();
    expect(stopped.copies).toHaveLength(1);
  });

  it('is cancelled where its client leaves', async () => {
    const { copies, ask, counts } = fixture();
    ask(request()).give({ ok: false, error: CANCELLED });
    await settled();
    expect([copies[0]?.left, counts().skipped]).toEqual([true, 1]);
  });
});

describe('a sequence', () => {
  it('is copied from its START to its END, under an id of its own that no model sees', () => {
    const { copies, step } = fixture({}, { shadow_requests_max: 10 });
    step(7n, { sequenceStart: true });
    step(7n);
    step(7n, { sequenceEnd: true });
    step(7n);
    const ids = copies.map(({ request: copied }) => copied.correlationId);
    expect([copies.length, new Set(ids).size, ids[0] === 7n]).toEqual([3, 1, false]);
    expect(copies.map(({ request: { shownId, background } }) => [shownId, background])).toEqual(
      copies.map(() => [7n, undefined]),
    );
  });

  it('whose START did not come by is not copied', () => {
    const { copies, step } = fixture();
    step(7n);
    expect(copies).toEqual([]);
  });

  it('for whose step there is no room is broken off, and given back', async () => {
    const { copies, step, evicted, counts } = fixture({}, { shadow_requests_max: 1 });
    step(7n, { sequenceStart: true });
    step(7n);
    expect([copies.length, copies[0]?.left, evicted]).toEqual([1, true, ['gw:1']]);
    step(7n);
    await settled();
    expect([copies.length, counts().dropped]).toEqual([1, 1]);
  });

  it('that is numbered is broken off where a step is missing, and what is asked for again is not copied', () => {
    const { copies, step, evicted } = fixture({}, { shadow_requests_max: 10 });
    step(7n, { sequenceStart: true, sequenceStep: 0 });
    step(7n, { sequenceStart: true, sequenceStep: 0 });
    step(7n, { sequenceStep: 1 });
    expect(copies.map(({ request: copied }) => copied.sequenceStep)).toEqual([undefined, undefined]);
    step(7n, { sequenceStep: 3 });
    step(7n, { sequenceStep: 4 });
    expect([copies.length, evicted]).toEqual([2, ['gw:1']]);
  });

  it('that begins anew is another one', () => {
    const { copies, step, evicted } = fixture({}, { shadow_requests_max: 10 });
    step(7n, { sequenceStart: true });
    step(7n, { sequenceStart: true });
    const [first, second] = copies.map(({ request: copied }) => copied.correlationId);
    expect([copies.length, first === second, evicted]).toEqual([2, false, ['gw:1']]);
  });

  it('whose copy fails is not copied further', async () => {
    const { copies, step, counts } = fixture({}, { shadow_requests_max: 10 });
    step(7n, { sequenceStart: true }).give(answer(1));
    copies[0]?.answer(UNAVAILABLE);
    await settled();
    step(7n);
    expect([copies.length, counts().failed]).toEqual([1, 1]);
  });

  it('one more than there may be drops the first', () => {
    const { copies, step, evicted, counts } = fixture({}, { shadow_requests_max: 10 });
    for (const id of [1n, 2n, 3n]) step(id, { sequenceStart: true });
    step(1n);
    expect([copies.length, evicted, counts().dropped]).toEqual([3, ['gw:1'], 1]);
  });
});

it('of a stream its one answer is compared once it is read', async () => {
  const { copies, shadows, counts } = fixture();
  const alias = { name: 'a', model: 'm', versions: [], shadow: { version: '2', share: 1 } };
  const answers = shadows.stream(request(), (routed) => {
    routed({ alias, version: '1', key: 'a\nx', isStep: false });
    return (async function* () {
      yield { outcome: answer(1), last: true };
    })();
  });
  copies[0]?.answer(answer(1, '2'));
  const read: Outcome[] = [];
  for await (const { outcome } of answers) read.push(outcome);
  await settled();
  expect([read, counts().equal]).toEqual([[answer(1)], 1]);
});
