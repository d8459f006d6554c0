import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { type BytesInFlight, createBytesInFlight } from '@nereid/caller';
import { type ErrorInfo, type InferMessage, type Outcome, sequenceNeedsStart } from '@nereid/protocol';
import { createLog } from '@nereid/runtime';
import { describe, expect, test } from 'vitest';
import { type GatewayFixture, gatewayFixture, identity, modelRecord, responseTo } from '../gateway-fixture.ts';
import { createSharedMemory } from '../shared-memory.ts';
import { ModelInferRequestSchema, ModelStreamInferResponseSchema } from './gen/grpc_service_pb.ts';
import { streamInfer } from './stream-infer.ts';
import type { StreamOrderLimits } from './stream-order.ts';
import type { BidiCall, MessageBytes } from './transport.ts';

const PLAIN = modelRecord(identity('plain', 'INT32', '1'));
const MANY = modelRecord(identity('many', 'INT32', '1', 'model_transaction_policy { decoupled: true }'));
const KEPT = modelRecord(identity('kept', 'INT32', '1', 'sequence_batching { direct { } }'));
const LIMITS = { grpc_stream_requests_max: 4, grpc_stream_bytes_max: 1_000_000 };
const int32 = (value: number) => new Uint8Array(Int32Array.of(value).buffer);

function requestBytes(model: string, id: string, emptyFinal = false, sequence?: bigint): Uint8Array {
  const flag = { parameterChoice: { case: 'boolParam' as const, value: true } };
  const corrid = { parameterChoice: { case: 'int64Param' as const, value: sequence ?? 0n } };
  return toBinary(
    ModelInferRequestSchema,
    create(ModelInferRequestSchema, {
      modelName: model,
      id,
      inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1n] }],
      rawInputContents: [int32(0)],
      parameters: {
        ...(emptyFinal ? { triton_enable_empty_final_response: flag } : {}),
        ...(sequence === undefined ? {} : { sequence_id: corrid }),
      },
    }),
  );
}

/** What was written, in short: the id, then the value, the error or "end"; an exclamation mark where it is final. */
function told(message: MessageBytes): string {
  const bytes = message instanceof Uint8Array ? message : Buffer.concat(message);
  const { errorMessage, inferResponse } = fromBinary(ModelStreamInferResponseSchema, new Uint8Array(bytes));
  const [raw] = inferResponse?.rawOutputContents ?? [];
  const value = raw === undefined ? 'end' : new DataView(raw.buffer, raw.byteOffset).getInt32(0, true);
  const isFinal = inferResponse?.parameters.triton_final_response?.parameterChoice.value === true;
  return `${inferResponse?.id} ${errorMessage || value}${isFinal ? '!' : ''}`;
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface StreamFixture extends GatewayFixture {
  send(...messages: readonly Uint8Array[]): Promise<void>;
  halfClose(): Promise<void>;
  leave(): Promise<void>;
  stop(): Promise<void>;
  /** From now on the client does not read what is written; what is given back lets it go on. */
  stopReading(): () => Promise<void>;
  /** The answer to the request of that id, as its model's owner gives it. */
  answer(id: string, value: number | ErrorInfo): Promise<void>;
  /** The next answer of a decoupled model; the end alone where there is no value. */
  chunk(id: string, value?: number | ErrorInfo, last?: boolean): Promise<void>;
  readonly written: readonly string[];
  /** Messages that were taken from the client. */
  readonly taken: number;
  /** Bytes that the gateway counts for it. */
  readonly held: number;
  /** Of all that its gateway holds. */
  readonly inFlight: BytesInFlight;
  readonly ending: 'open' | 'ok' | ErrorInfo;
  /** Ids of the requests that were cancelled at their owner. */
  cancelled(): readonly string[];
}

async function streaming(
  options: { readonly metadata?: Record<string, string>; readonly limits?: Partial<StreamOrderLimits> } = {},
): Promise<StreamFixture> {
  const fixture = await gatewayFixture({ models: [PLAIN, MANY, KEPT] });
  const inbox: Uint8Array[] = [];
  const [leaving, stopping] = [new AbortController(), new AbortController()];
  const written: string[] = [];
  const chunks = new Map<string, number>();
  let ending: StreamFixture['ending'] = 'open';
  let closed = false;
  let taken = 0;
  let reader: ((step: IteratorResult<Uint8Array>) => void) | undefined;
  let notReading: Promise<void> | undefined;
  let held = 0;

  const give = () => {
    if (reader === undefined) return;
    const message = inbox.shift();
    if (message === undefined && !closed) return;
    const resolve = reader;
    reader = undefined;
    if (message === undefined) resolve({ done: true, value: undefined });
    else {
      taken++;
      resolve({ done: false, value: message });
    }
  };
  const end = (how: 'ok' | ErrorInfo) => {
    if (ending === 'open') ending = how;
  };
  const call: BidiCall = {
    metadata: { get: (name) => options.metadata?.[name], headers: () => [] },
    signal: leaving.signal,
    stopping: stopping.signal,
    requestId: () => {},
    msLeft: () => 0,
    messages: {
      [Symbol.asyncIterator]: () => ({
        next: () =>
          new Promise((resolve) => {
            reader = resolve;
            give();
          }),
      }),
    },
    write(message) {
      if (ending === 'open') written.push(told(message));
      return notReading;
    },
    holds(bytes) {
      held = bytes;
    },
    end: () => end('ok'),
    fail: end,
  };
  const log = createLog({ level: 'silent' });
  const inFlight = createBytesInFlight(1e9);
  const done = streamInfer(
    {
      gateway: fixture.gateway,
      log,
      forwards: undefined,
      sharedMemory: createSharedMemory(false),
      bytesInFlight: inFlight,
      limits: { ...LIMITS, ...options.limits },
    },
    call,
  );
  void done.then(() => {
    if (ending === 'open') throw new Error('it resolved before its end');
  });

  const asked = (id: string): InferMessage => {
    const found = fixture.received.find((message) => message.kind === 'infer' && message.request.id === id);
    if (found?.kind !== 'infer') throw new Error(`${id} was not sent`);
    return found;
  };
  const outcomeOf = ({ model, request }: InferMessage, value: number | ErrorInfo | undefined): Outcome => {
    if (typeof value === 'object') return { ok: false, error: value };
    const outputs =
      value === undefined ? [] : [{ name: 'OUTPUT', datatype: 'INT32' as const, shape: [1], data: int32(value) }];
    return { ok: true, response: { modelName: model, modelVersion: '1', id: request.id, parameters: {}, outputs } };
  };
  return {
    ...fixture,
    send(...messages) {
      inbox.push(...messages);
      give();
      return turn();
    },
    halfClose() {
      closed = true;
      give();
      return turn();
    },
    leave() {
      leaving.abort();
      return turn();
    },
    stop() {
      stopping.abort();
      return turn();
    },
    stopReading() {
      let goOn = () => {};
      notReading = new Promise((resolve) => {
        goOn = resolve;
      });
      return () => {
        notReading = undefined;
        goOn();
        return turn();
      };
    },
    answer(id, value) {
      const message = asked(id);
      fixture.coordinator.send('gw-1', responseTo(message, outcomeOf(message, value)));
      return turn();
    },
    chunk(id, value, last = value === undefined) {
      const message = asked(id);
      const chunk = chunks.get(id) ?? 0;
      chunks.set(id, chunk + 1);
      fixture.coordinator.send('gw-1', { ...responseTo(message, outcomeOf(message, value)), chunk, last });
      return turn();
    },
    written,
    get taken() {
      return taken;
    },
    get held() {
      return held;
    },
    inFlight,
    get ending() {
      return ending;
    },
    cancelled: () =>
      fixture.received.flatMap((message) => {
        if (message.kind !== 'cancel') return [];
        const infer = fixture.received.find((each) => each.kind === 'infer' && each.id === message.id);
        return infer?.kind === 'infer' ? [infer.request.id] : [];
      }),
  };
}

const plain = (id: string) => requestBytes('plain', id);
const many = (id: string, emptyFinal = false) => requestBytes('many', id, emptyFinal);
const WRONG: ErrorInfo = { code: 'NOT_FOUND', message: 'not this' };

describe('what a stream answers', () => {
  test('in the order of the requests, and as produced where the model is decoupled', async () => {
    const stream = await streaming();
    await stream.send(plain('a'), plain('b'), many('c'));
    await stream.answer('b', 2);
    await stream.chunk('c', 3);
    await stream.answer('a', 1);
    await stream.chunk('c', 4, true);
    expect(stream.written).toEqual(['c 3', 'a 1!', 'b 2!', 'c 4!']);
    await stream.halfClose();
    expect(stream.ending).toBe('ok');
  });

  test('the end of decoupled answers only where it is asked for', async () => {
    const stream = await streaming();
    await stream.send(many('a'), many('b', true));
    await stream.chunk('a', 1);
    await stream.chunk('a');
    await stream.chunk('b');
    expect(stream.written).toEqual(['a 1', 'b end!']);
  });

  test('an error is a message, with the flag where the model made it', async () => {
    const stream = await streaming();
    await stream.send(plain('a'), requestBytes('none', 'b'), many('c'));
    await stream.answer('a', WRONG);
    await stream.chunk('c', WRONG);
    await stream.chunk('c', WRONG, true);
    const unknown = "b Request for unknown model: 'none' is not found";
    expect(stream.written).toEqual(['a not this!', unknown, 'c not this', 'c not this!']);
    expect(stream.ending).toBe('open');
  });

  test('with triton_grpc_error, a refusal still; the first of a model ends it, and what is in flight', async () => {
    const stream = await streaming({ metadata: { triton_grpc_error: 'true' } });
    await stream.send(requestBytes('none', 'a'), plain('b'), plain('c'));
    await stream.answer('c', 3);
    expect(stream.written).toEqual(["a Request for unknown model: 'none' is not found"]);
    await stream.send(many('d'));
    await stream.chunk('d', WRONG);
    expect([stream.written.length, stream.ending]).toEqual([1, WRONG]);
    expect(stream.cancelled()).toEqual(['b', 'd']);
    expect(stream.gateway.waiting).toBe(0);
  });

  test('a step whose sequence nobody has is refused, also with triton_grpc_error', async () => {
    const stream = await streaming({ metadata: { triton_grpc_error: 'true' } });
    const refused = sequenceNeedsStart('kept', 5n);
    await stream.send(requestBytes('kept', 'a', false, 5n), plain('b'));
    await stream.answer('a', refused);
    await stream.answer('b', 2);
    expect(stream.written).toEqual([`a ${refused.message}`, 'b 2!']);
    expect(stream.ending).toBe('open');
    await stream.leave();
  });

  test('with another text in that metadata nothing changes', async () => {
    const stream = await streaming({ metadata: { triton_grpc_error: '1' } });
    await stream.send(plain('a'));
    await stream.answer('a', WRONG);
    expect([stream.written, stream.ending]).toEqual([['a not this!'], 'open']);
  });

  test('what is no message ends it', async () => {
    const stream = await streaming();
    await stream.send(plain('a'), Uint8Array.of(0x0a, 0x7f));
    expect(stream.ending).toMatchObject({ code: 'INVALID_ARG', field: 'message' });
    expect(stream.cancelled()).toEqual(['a']);
  });
});

describe('how long a stream lasts', () => {
  test('half-closed, until all is answered', async () => {
    const stream = await streaming();
    await stream.send(plain('a'), many('b'));
    await stream.halfClose();
    await stream.answer('a', 1);
    expect(stream.ending).toBe('open');
    await stream.chunk('b');
    expect([stream.written, stream.ending]).toEqual([['a 1!'], 'ok']);
  });

  test('a client that leaves cancels all in flight', async () => {
    const stream = await streaming();
    await stream.send(plain('a'), many('b'), plain('c'));
    await stream.chunk('b', 1);
    await stream.answer('c', 3);
    await stream.leave();
    expect(stream.cancelled()).toEqual(['a', 'b']);
    expect([stream.written, stream.gateway.waiting]).toEqual([['b 1'], 0]);
  });

  test('a server that stops ends one without requests', async () => {
    const stream = await streaming();
    await stream.stop();
    expect(stream.ending).toMatchObject({ code: 'UNAVAILABLE' });
  });

  test('and another once what runs has ended, refusing what comes meanwhile', async () => {
    const stream = await streaming();
    await stream.send(plain('a'));
    await stream.stop();
    await stream.send(many('b'));
    const refused = 'b GRPC server is shutting down and has stopped accepting new requests.';
    expect([stream.written, stream.ending]).toEqual([[refused], 'open']);
    await stream.answer('a', 1);
    expect(stream.written).toEqual([refused, 'a 1!']);
    expect(stream.ending).toMatchObject({ code: 'UNAVAILABLE' });
  });
});

describe('how much a stream takes in', () => {
  test('so many requests, then another for each that is answered', async () => {
    const stream = await streaming({ limits: { grpc_stream_requests_max: 2 } });
    await stream.send(plain('a'), many('b'), plain('c'), plain('d'));
    expect(stream.taken).toBe(2);
    await stream.chunk('b');
    expect(stream.taken).toBe(3);
    await stream.answer('c', 3);
    expect(stream.taken).toBe(3);
    await stream.answer('a', 1);
    expect(stream.taken).toBe(4);
  });

  test('no request while the client does not read its answers, nor more of a decoupled model', async () => {
    const stream = await streaming();
    await stream.send(many('a'), plain('b'));
    const goOn = stream.stopReading();
    await stream.chunk('a', 1);
    await stream.chunk('a', 2);
    await stream.send(plain('c'), plain('d'));
    // One was asked for before.
    expect(stream.taken).toBe(3);
    await stream.answer('b', 3);
    expect(stream.written).toEqual(['a 1', 'b 3!']);
    await goOn();
    expect(stream.taken).toBe(4);
    expect(stream.written).toEqual(['a 1', 'b 3!', 'a 2']);
  });

  test('what of a decoupled model waits for its reader counts as bytes of the gateway, until it leaves', async () => {
    const stream = await streaming();
    await stream.send(many('a'));
    const goOn = stream.stopReading();
    for (const value of [1, 2, 3]) await stream.chunk('a', value);
    expect(stream.inFlight.held).toBe(8);
    await stream.leave();
    await goOn();
    expect(stream.inFlight.held).toBe(0);
  });

  test('what it holds, of requests in flight and answers that wait, counts as bytes of the gateway', async () => {
    const stream = await streaming();
    const [first, second] = [plain('a'), plain('b')];
    await stream.send(first, second);
    const requests = first.byteLength + second.byteLength;
    expect(stream.held).toBe(requests);
    await stream.answer('b', 2);
    expect(stream.held).toBeGreaterThan(requests);
    await stream.answer('a', 1);
    expect(stream.held).toBe(0);
  });
});
