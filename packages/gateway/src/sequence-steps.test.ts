import {
  ANSWER_REFUSED,
  type CancelMessage,
  type ErrorInfo,
  type InferMessage,
  type InferRequest,
  type Outcome,
  REQUEST_DEFAULTS,
  type ResponseMessage,
  refusedExecution,
} from '@nereid/protocol';
import { timing } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { echo, type FixtureOptions, gatewayFixture, identity, modelRecord, responseTo } from './gateway-fixture.ts';

const BATCHING = 'max_batch_size: 4 sequence_batching { direct { } }';
const MODELS = [
  modelRecord(identity('steps', 'INT32', '1', BATCHING)),
  modelRecord(identity('wide', 'INT32', '-1', BATCHING)),
  modelRecord(identity('streams', 'INT32', '1', `${BATCHING} model_transaction_policy { decoupled: true }`)),
  modelRecord(
    identity('again', 'INT32', '1', 'max_batch_size: 4 sequence_batching { iterative_sequence: true oldest { } }'),
  ),
];

const input = { name: 'INPUT', datatype: 'INT32', shape: [1, 1], data: new Uint8Array(4) } as const;
const START = { sequenceStart: true };
const END = { sequenceEnd: true };

function step(more: Partial<InferRequest> = {}): InferRequest {
  return { ...REQUEST_DEFAULTS, modelName: 'steps', correlationId: 5n, inputs: [input], ...more };
}

/** `ok`, or the code and reason of its error. */
function word(outcome: Outcome): string {
  return outcome.ok ? 'ok' : [outcome.error.code, outcome.error.reason].filter((part) => part !== undefined).join(' ');
}

const START_ERROR =
  "inference request for sequence 5 to model 'steps' must specify the START flag on the first request of the sequence";

async function world(options: Partial<FixtureOptions> = {}) {
  const fixture = await gatewayFixture({ models: MODELS, ...options });
  const outcomes: string[] = [];
  const { gateway, received, coordinator } = fixture;
  const flush = async () => {
    for (let turn = 0; turn < 8; turn++) await Promise.resolve();
  };
  const infers = () => received.filter((message): message is InferMessage => message.kind === 'infer');
  const last = (g: number): InferMessage => {
    const found = infers().findLast((message) => message.g === g);
    if (found === undefined) throw new Error(`no request ${g} came`);
    return found;
  };
  return {
    ...fixture,
    flush,
    /** As `g:outcome`, in the order in which they were handed out. */
    outcomes,
    /** Sends a step; its number is that of its request. */
    ask(more: Partial<InferRequest> = {}, signal?: AbortSignal) {
      const g = infersAsked++;
      void gateway.infer(step(more), signal).then((outcome) => outcomes.push(`${g}:${word(outcome)}`));
      return flush();
    },
    last,
    /** What came since the last look: of requests g, session, prev, step and sends, of others their kind and session. */
    came() {
      const fresh = received.slice(seen);
      seen = received.length;
      return fresh.map((message) => {
        if (message.kind === 'infer') {
          return `${message.g} ${message.session} prev ${message.prev}${message.sends > 1 ? ` sends ${message.sends}` : ''}`;
        }
        return `${message.kind} ${(message as CancelMessage).session}`;
      });
    },
    answer(g: number, change: Partial<ResponseMessage> = {}) {
      const message = last(g);
      coordinator.send('gw-1', { ...responseTo(message, echo(message)), ...change });
      return flush();
    },
    fails(g: number, error: ErrorInfo, execution = 'wk-1/1') {
      coordinator.send('gw-1', { ...responseTo(last(g), { ok: false, error }), execution });
      return flush();
    },
    moved(g: number, sent: string | null, current: string | null) {
      coordinator.send('gw-1', { kind: 'moved', model: 'steps', id: `gw-1:${g}`, sent, current });
      return flush();
    },
    /** Lets the gateway's clock go on. */
    async pass(ms: number) {
      fixture.clock.advanceUs(ms * 1000);
      await flush();
    },
  };
}
let infersAsked = 1;
let seen = 0;
const begin = async (options?: Partial<FixtureOptions>) => {
  infersAsked = 1;
  seen = 0;
  return world(options);
};

describe('steps of a sequence', () => {
  it('R12, R16: name the session of their START, and the step before while it is unfinished', async () => {
    const { ask, answer, came, outcomes, gateway } = await begin();
    await ask(START);
    await ask();
    expect(came()).toEqual(['1 gw-1:1 prev 0', '2 gw-1:1 prev 1']);
    await answer(1);
    await answer(2);
    await ask(END);
    await answer(3);
    expect(came()).toEqual(['3 gw-1:1 prev 0']);
    await ask();
    expect(came()).toEqual(['4 null prev 0']);
    expect(outcomes).toEqual(['1:ok', '2:ok', '3:ok']);
    await gateway.close();
  });

  it('are those of one id, and of one model', async () => {
    const { ask, came, gateway } = await begin();
    await ask(START);
    await ask({ correlationId: '5' });
    await ask({ correlationId: 6n });
    await ask({ modelName: 'again', correlationId: 0n });
    expect(came()).toEqual(['1 gw-1:1 prev 0', '2 null prev 0', '3 null prev 0', '4 gw-1:4 prev 0']);
    await gateway.close();
  });

  it('R17: are answered in order, and an answer that waits for its turn counts as none', async () => {
    const { ask, answer, last, outcomes, gateway } = await begin();
    await ask(START);
    await ask();
    await ask();
    await answer(3);
    await answer(2);
    await answer(2);
    expect(outcomes).toEqual([]);
    expect(gateway.waiting).toBe(3);
    await ask({ correlationId: 6n, ...START });
    expect(last(4).low).toBe(1);
    await answer(1);
    expect(outcomes).toEqual(['1:ok', '2:ok', '3:ok']);
    await ask({ correlationId: 7n, ...START });
    expect(last(5).low).toBe(4);
    await gateway.close();
  });

  it('R17: of another sequence under the same id do not wait', async () => {
    const { ask, answer, came, outcomes, gateway } = await begin();
    await ask(START);
    await ask(START);
    await ask();
    expect(came()).toEqual(['1 gw-1:1 prev 0', '2 gw-1:2 prev 1', '3 gw-1:2 prev 2']);
    await answer(2);
    await answer(3);
    await answer(1);
    expect(outcomes).toEqual(['2:ok', '3:ok', '1:ok']);
    await gateway.close();
  });

  it('many in a row are handed out without growing the stack', async () => {
    const { ask, last, coordinator, outcomes, flush } = await begin({ limits: { requests_pending_max: 10_000 } });
    for (let g = 1; g <= 3_000; g++) void ask(g === 1 ? START : {});
    await flush();
    const first = responseTo(last(1), echo(last(1)));
    for (let g = 3_000; g >= 1; g--) {
      coordinator.send('gw-1', { ...first, id: `gw-1:${g}` });
      // The mailbox takes 1,000 at a time.
      if (g % 500 === 0) await flush();
    }
    await flush();
    expect(outcomes).toHaveLength(3_000);
  });
});

describe('R12, R15: moved', () => {
  it('a step that named none goes on with the session that there is, and all behind it', async () => {
    const { ask, answer, moved, came, outcomes } = await begin();
    await ask();
    await ask();
    expect(came()).toEqual(['1 null prev 0', '2 null prev 1']);
    await moved(1, null, 'gw-2:7');
    await moved(2, null, 'gw-2:7');
    expect(came()).toEqual(['1 gw-2:7 prev 0 sends 2', '2 gw-2:7 prev 1 sends 2']);
    await answer(1);
    await answer(2);
    await ask(END);
    await answer(3);
    expect(came()).toEqual(['3 gw-2:7 prev 0']);
    expect(outcomes).toEqual(['1:ok', '2:ok', '3:ok']);
  });

  it("one of no sequence gets Triton's START error, one of a sequence that is gone its reason too", async () => {
    const { ask, answer, moved, came, gateway, outcomes } = await begin();
    const outcome = gateway.infer(step());
    await moved(1, null, null);
    expect(await outcome).toEqual({ ok: false, error: { code: 'INVALID_ARG', message: START_ERROR } });
    infersAsked = 2;
    await ask(START);
    await answer(2);
    await ask();
    await ask();
    came();
    await moved(3, 'gw-1:2', null);
    expect(outcomes).toEqual(['2:ok', '3:INVALID_ARG sequence_lost', '4:INVALID_ARG sequence_lost']);
    expect(came()).toEqual([]);
    await ask();
    expect(came()).toEqual(['5 null prev 0']);
    await moved(5, null, null);
    expect(outcomes.at(-1)).toBe('5:INVALID_ARG sequence_lost');
  });

  it('one that another gateway began anew goes on there, unless two copies of it were sent', async () => {
    const { ask, answer, moved, came, pass, outcomes, gateway } = await begin({ timing: timing() });
    await ask(START);
    await answer(1);
    await ask();
    await moved(2, 'gw-1:1', 'gw-2:7');
    await answer(2);
    expect(came()).toEqual(['1 gw-1:1 prev 0', '2 gw-1:1 prev 0', '2 gw-2:7 prev 0 sends 2']);
    await ask();
    await pass(1_000);
    await moved(3, 'gw-2:7', 'gw-3:1');
    expect(outcomes).toEqual(['1:ok', '2:ok', '3:INVALID_ARG sequence_lost']);
    await gateway.close();
  });

  it('is not believed of a step whose START is under way: it is sent again behind it', async () => {
    const { ask, answer, moved, came, outcomes } = await begin();
    await ask(START);
    await ask();
    came();
    await moved(2, 'gw-1:1', null);
    expect([outcomes, came()]).toEqual([[], []]);
    await answer(1);
    expect(came()).toEqual(['2 gw-1:1 prev 0 sends 2']);
    await answer(2);
    expect(outcomes).toEqual(['1:ok', '2:ok']);
  });

  it('4,096 idle ids are remembered; one more costs the oldest a moved', async () => {
    const { ask, answer, came } = await begin({ limits: { requests_pending_max: 10_000 } });
    for (let id = 1n; id <= 4_097n; id++) {
      await ask({ ...START, correlationId: id });
      await answer(Number(id));
    }
    came();
    await ask({ correlationId: 1n });
    await ask({ correlationId: 2n });
    expect(came()).toEqual(['4098 null prev 0', '4099 gw-1:2 prev 0']);
  });
});

describe('R19: fail-stop', () => {
  const invalid = { code: 'INTERNAL', message: 'no' } as const;

  it("a model's own error is an answer: the sequence goes on", async () => {
    const { ask, answer, fails, came, outcomes } = await begin();
    await ask(START);
    await ask();
    await fails(1, invalid);
    await answer(2);
    await ask();
    await answer(3);
    expect(outcomes).toEqual(['1:INTERNAL', '2:ok', '3:ok']);
    expect(came()).toEqual(['1 gw-1:1 prev 0', '2 gw-1:1 prev 1', '3 gw-1:1 prev 0']);
  });

  it.each<[string, ErrorInfo, string, string]>([
    ["an owner's", invalid, refusedExecution('co-1'), 'INTERNAL'],
    ['an answer that was too large to pass on', ANSWER_REFUSED, 'wk-1/1', 'UNAVAILABLE'],
    ['a worker that says so', { ...invalid, reason: 'sequence_lost' }, 'wk-1/1', 'INTERNAL sequence_lost'],
  ])('any other ends it, and the owner hears of it: %s', async (_name, error, execution, expected) => {
    const { ask, fails, came, outcomes } = await begin();
    await ask(START);
    await ask();
    await ask();
    await ask({ correlationId: 6n, ...START });
    came();
    await fails(1, error, execution);
    expect(outcomes).toEqual([`1:${expected}`, '2:INVALID_ARG sequence_lost', '3:INVALID_ARG sequence_lost']);
    expect(came()).toEqual(['cancel gw-1:1']);
    await ask();
    expect(came()).toEqual(['5 null prev 0']);
  });

  it.each(['step_gap', 'answer_expired'])('a numbered step that is not due ends nothing: %s', async (reason) => {
    const { ask, answer, fails, outcomes, came } = await begin();
    await ask({ ...START, sequenceStep: 0 });
    await ask({ sequenceStep: 2 });
    await answer(1);
    came();
    await fails(2, { code: 'INVALID_ARG', message: 'no', reason });
    await ask({ sequenceStep: 1 });
    await answer(3);
    expect(outcomes).toEqual(['1:ok', `2:INVALID_ARG ${reason}`, '3:ok']);
    expect(came()).toEqual(['3 gw-1:1 prev 0']);
  });

  it('a caller who leaves ends it: later steps are cancelled, the answer of an earlier one still comes', async () => {
    const { ask, answer, came, outcomes } = await begin();
    const leaving = new AbortController();
    await ask(START);
    await ask({}, leaving.signal);
    await ask();
    came();
    leaving.abort();
    await answer(1);
    expect(outcomes).toEqual(['2:CANCELLED', '3:CANCELLED sequence_lost', '1:ok']);
    expect(came()).toEqual(['cancel gw-1:1']);
  });

  it('no step goes on with a session that failed here, though its owner has not heard of it', async () => {
    const { ask, answer, moved, came, outcomes } = await begin();
    const leaving = new AbortController();
    await ask(START);
    await ask({}, leaving.signal);
    leaving.abort();
    await ask();
    came();
    await moved(3, null, 'gw-1:1');
    expect(outcomes).toEqual(['2:CANCELLED', '3:INVALID_ARG sequence_lost']);
    expect(came()).toEqual(['cancel gw-1:1']);
    await ask(START);
    await answer(4);
    await ask(END);
    await answer(5);
    expect(outcomes.slice(2)).toEqual(['4:ok', '5:ok']);
  });

  it('a step that a full mailbox did not take ends nothing, if none is behind it', async () => {
    const mailboxLimits = { messages_max: 1, bytes_max: 1e9 };
    const { ask, answer, coordinator, came, outcomes, flush } = await begin({ mailboxLimits });
    await ask(START);
    await answer(1);
    coordinator.send('co-1', { kind: 'stale', model: 'steps', id: 'x', known: null });
    await ask();
    await flush();
    expect(outcomes).toEqual(['1:ok', '2:UNAVAILABLE']);
    came();
    await ask();
    expect(came()).toEqual(['3 gw-1:1 prev 0']);
  });

  it('a START that a full mailbox did not take began nothing, and nothing goes on behind it', async () => {
    const { ask, answer, coordinator, came, outcomes, flush } = await begin({
      mailboxLimits: { messages_max: 1, bytes_max: 1e9 },
    });
    await ask(START);
    await answer(1);
    coordinator.send('co-1', { kind: 'stale', model: 'steps', id: 'x', known: null });
    await ask(START);
    await flush();
    expect(outcomes).toEqual(['1:ok', '2:UNAVAILABLE']);
    came();
    await ask();
    expect(came()).toEqual(['3 null prev 0']);
  });

  it('the end of the gateway is no failure of a sequence', async () => {
    const { ask, came, gateway, outcomes, flush } = await begin();
    await ask(START);
    await ask();
    came();
    await gateway.close();
    await flush();
    expect(outcomes).toEqual(['1:UNAVAILABLE', '2:UNAVAILABLE']);
    expect(came()).toEqual([]);
  });
});

describe('R8: a chain is sent again', () => {
  it('whole, in the order of g, but for what waits for its turn', async () => {
    const { ask, answer, came, pass, gateway } = await begin({ timing: timing() });
    await ask(START);
    await pass(500);
    await ask();
    await ask();
    await ask({ correlationId: 6n, ...START });
    await answer(3);
    came();
    await pass(500);
    expect(came()).toEqual(['1 gw-1:1 prev 0 sends 2', '2 gw-1:1 prev 1 sends 2']);
    await answer(1);
    await pass(500);
    expect(came()).toEqual(['4 gw-1:4 prev 0 sends 2']);
    await gateway.close();
  });

  it('once after an interruption, and once when its owner changes', async () => {
    const { ask, came, flush, interrupt, pass, directory, gateway } = await begin({ timing: timing() });
    await ask(START);
    await ask();
    came();
    await pass(1);
    interrupt();
    await flush();
    expect(came()).toEqual(['1 gw-1:1 prev 0 sends 2', '2 gw-1:1 prev 1 sends 2']);
    await directory.acquire('steps', 'co-1');
    await flush();
    expect(came()).toEqual(['1 gw-1:1 prev 0 sends 3', '2 gw-1:1 prev 1 sends 3']);
    await gateway.close();
  });
});

describe('R22: numbered steps', () => {
  it('outlive their caller', async () => {
    const { ask, answer, came, outcomes, gateway, received } = await begin();
    const leaving = new AbortController();
    await ask({ ...START, sequenceStep: 0 });
    await ask({ sequenceStep: 1 }, leaving.signal);
    await ask({ sequenceStep: 2 });
    came();
    leaving.abort();
    await ask({ sequenceStep: 1 });
    expect(came()).toEqual(['4 gw-1:1 prev 3']);
    for (const g of [1, 2, 3, 4]) await answer(g);
    expect(outcomes).toEqual(['2:CANCELLED', '1:ok', '3:ok', '4:ok']);
    expect(gateway.waiting).toBe(0);
    const told = received.flatMap((message) => (message.kind === 'infer' ? [[message.step, message.msLeft]] : []));
    expect(told).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
      [1, 0],
    ]);
    await gateway.close();
  });

  it('are sent again when their caller has left, with their inputs', async () => {
    const released: number[] = [];
    const rewritten: number[] = [];
    const largeTensors = {
      release: (tensors: readonly unknown[]) => void released.push(tensors.length),
      rewrite: (tensors: readonly unknown[]) => void rewritten.push(tensors.length),
      keep: () => {},
      letGo: () => {},
      discard: () => {},
      put: async () => undefined,
      lifetimeMs: 12_000,
    };
    const { ask, answer, came, coordinator, flush, pass, outcomes, gateway } = await begin({
      largeTensors,
      timing: timing(),
    });
    const leaving = new AbortController();
    await ask({ ...START, sequenceStep: 0 }, leaving.signal);
    leaving.abort();
    await flush();
    expect([outcomes, released]).toEqual([['1:CANCELLED'], []]);
    await pass(1_000);
    coordinator.send('gw-1', { kind: 'missing', model: 'steps', id: 'gw-1:1' });
    await flush();
    expect(came()).toEqual(['1 gw-1:1 prev 0', '1 gw-1:1 prev 0 sends 2', '1 gw-1:1 prev 0 sends 3']);
    await answer(1);
    expect([outcomes, rewritten, released]).toEqual([['1:CANCELLED'], [1], [1]]);
    await gateway.close();
  });

  it('go on without their caller up to a bound: one more is cancelled as any other', async () => {
    const { gateway, fails, came, flush } = await begin();
    const leaving = new AbortController();
    const large = { ...input, shape: [1, 40_000_000], data: new Uint8Array(160_000_000) };
    const leave = (correlationId: bigint) => {
      const asked = { ...START, modelName: 'wide', correlationId, sequenceStep: 0, inputs: [large] };
      void gateway.infer(step(asked), leaving.signal);
    };
    leave(1n);
    leave(2n);
    await flush();
    came();
    leaving.abort();
    await flush();
    expect([gateway.waiting, came()]).toEqual([1, ['cancel gw-1:2']]);
    await fails(1, { code: 'INTERNAL', message: 'no' });
    const later = new AbortController();
    void gateway.infer(
      step({ ...START, modelName: 'wide', correlationId: 3n, sequenceStep: 0, inputs: [large] }),
      later.signal,
    );
    await flush();
    came();
    later.abort();
    await flush();
    expect([gateway.waiting, came()]).toEqual([1, []]);
    await gateway.close();
  });

  it('have no deadline at their owner, which would end the sequence at it', async () => {
    const { gateway, last, flush } = await begin();
    void gateway.infer(step({ ...START, sequenceStep: 0 }), undefined, 5_000);
    void gateway.infer(step({ ...START, correlationId: 6n }), undefined, 5_000);
    await flush();
    expect([last(1).msLeft, last(2).msLeft]).toEqual([0, 5_200]);
    await gateway.close();
  });

  it('behind one that failed go on without waiting for it: the next is sent again', async () => {
    const { ask, fails, came, outcomes, answer } = await begin();
    await ask({ ...START, sequenceStep: 0 });
    await ask({ sequenceStep: 1 });
    await ask({ sequenceStep: 2 });
    came();
    await fails(1, { code: 'UNAVAILABLE', message: 'not now' }, refusedExecution('co-1'));
    // The third waits for the second: were all sent again at each failure, a thousand would be sent half a million times.
    expect(came()).toEqual(['2 gw-1:1 prev 0 sends 2']);
    for (const g of [2, 3]) await fails(g, { code: 'INVALID_ARG', message: 'wait', reason: 'step_gap' });
    await ask({ ...START, sequenceStep: 0 });
    await answer(4);
    expect(outcomes).toEqual(['1:UNAVAILABLE', '2:INVALID_ARG step_gap', '3:INVALID_ARG step_gap', '4:ok']);
  });
});

describe('R29: the inputs of steps', () => {
  async function withTensors() {
    const released: number[] = [];
    const rewritten: number[] = [];
    const note = (list: number[]) => (tensors: readonly { readonly shape: readonly number[] }[]) =>
      void list.push(...tensors.map(({ shape }) => shape[0] ?? 0));
    const largeTensors = {
      release: note(released),
      rewrite: note(rewritten),
      keep: () => {},
      letGo: () => {},
      discard: () => {},
      put: async () => undefined,
      lifetimeMs: 12_000,
    };
    return { ...(await begin({ largeTensors })), released, rewritten };
  }

  it('are kept while its answer waits for its turn', async () => {
    const { ask, answer, released } = await withTensors();
    await ask(START);
    await ask();
    await answer(2);
    expect(released).toEqual([]);
    await answer(1);
    expect(released).toEqual([1, 1]);
  });

  it('are put down anew where a worker did not find them, and the step goes where it was', async () => {
    const { ask, answer, came, coordinator, flush, rewritten, outcomes } = await withTensors();
    await ask(START);
    await ask();
    came();
    coordinator.send('gw-1', { kind: 'missing', model: 'steps', id: 'gw-1:1' });
    await flush();
    expect([rewritten, came()]).toEqual([[1], ['1 gw-1:1 prev 0 sends 2']]);
    await answer(1);
    await answer(2);
    expect(outcomes).toEqual(['1:ok', '2:ok']);
  });

  it('that are lost again and again end the sequence', async () => {
    const { ask, came, coordinator, flush, outcomes } = await withTensors();
    await ask(START);
    await ask();
    for (let time = 0; time < 5; time++) {
      coordinator.send('gw-1', { kind: 'missing', model: 'steps', id: 'gw-1:1' });
      await flush();
    }
    expect(outcomes).toEqual(['1:UNAVAILABLE', '2:INVALID_ARG sequence_lost']);
    expect(came().at(-1)).toBe('cancel gw-1:1');
  });
});

describe('streams of steps', () => {
  it('R17: what comes early waits for the end of the stream before it', async () => {
    const { gateway, coordinator, last, flush } = await begin();
    const read: string[] = [];
    const ask = async (name: string, more: Partial<InferRequest>) => {
      for await (const { outcome } of gateway.inferStream(step({ modelName: 'streams', ...more }))) {
        read.push(`${name} ${word(outcome)}`);
      }
    };
    const both = [ask('first', START), ask('second', {})];
    await flush();
    const chunk = (g: number, index: number, end: boolean) => {
      const message = last(g);
      coordinator.send('gw-1', { ...responseTo(message, echo(message)), chunk: index, last: end });
      return flush();
    };
    await chunk(2, 0, false);
    await chunk(2, 1, true);
    await chunk(1, 0, false);
    expect(read).toEqual(['first ok']);
    await chunk(1, 1, true);
    await Promise.all(both);
    expect(read).toEqual(['first ok', 'first ok', 'second ok', 'second ok']);
  });

  it('R27, R19: one that breaks off ends its sequence', async () => {
    const { gateway, coordinator, last, flush, came } = await begin();
    const answers = gateway.inferStream(step({ modelName: 'streams', ...START }));
    const later = gateway.inferStream(step({ modelName: 'streams' }));
    await flush();
    came();
    const message = last(1);
    for (const index of [0, 2])
      coordinator.send('gw-1', { ...responseTo(message, echo(message)), chunk: index, last: false });
    const read: string[] = [];
    for await (const { outcome } of answers) read.push(word(outcome));
    for await (const { outcome } of later) read.push(word(outcome));
    expect(read).toEqual(['ok', 'UNAVAILABLE stream_broken', 'INVALID_ARG sequence_lost']);
    await flush();
    expect(came()).toEqual(['cancel gw-1:1', 'cancel null']);
  });
});
