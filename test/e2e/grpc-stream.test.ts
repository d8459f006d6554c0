import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { addGated, type GatedModel } from './gated-model.ts';
import { type GrpcClient, type GrpcStreamResponse, grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

const DECOUPLED = 'model_transaction_policy { decoupled: true }';
const FINAL = 'triton_final_response';
const EMPTY_FINAL = { triton_enable_empty_final_response: { bool_param: true } };
const GRPC_ERRORS = { metadata: { triton_grpc_error: 'true' } };

/** Answers 0, 1, … as often as its input says; the third is an error. */
const REPEAT = `
  async function* answers({ inputs }) {
    const [count] = inputs.get('VALUE').data;
    for (let index = 0; index < count; index++) {
      if (index === 2) yield new Error('not the third');
      else yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(index) } } };
    }
  }
  export const execute = (requests) => requests.map(answers);`;

/** Answers without end, until it is cancelled. */
const ENDLESS = `
  import { setTimeout as delay } from 'node:timers/promises';
  let ended = 0;
  async function* answers({ signal }) {
    try {
      for (let index = 0; !signal.aborted; index++) {
        yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(index) } } };
        await delay(5);
      }
    } finally {
      ended++;
    }
  }
  const count = () => ({ outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(ended) } } });
  export const execute = (requests) =>
    requests.map((request) => (request.inputs.get('VALUE').data[0] < 0 ? count() : answers(request)));`;

/** What an answer is, in short: its id, then its value, its error or "end"; an exclamation mark where it is the final one. */
function told(answer: GrpcStreamResponse | undefined): string {
  const response = answer?.infer_response;
  const what = answer?.error_message || (valueIn(response) ?? 'end');
  const flag = response?.parameters?.[FINAL];
  const isFinal = flag !== undefined && 'bool_param' in flag && flag.bool_param;
  return `${response?.id ?? ''} ${what}${isFinal ? '!' : ''}`;
}

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let client: GrpcClient;
  const gates: Record<string, GatedModel> = {};
  const gate = (name: string): GatedModel => {
    const found = gates[name];
    if (found === undefined) throw new Error(`no gated model ${name}`);
    return found;
  };

  beforeAll(async () => {
    folder = createModelFolder();
    folder.addJavaScript(
      'echo',
      'export const execute = (requests) => requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get("VALUE") } }));',
    );
    folder.addJavaScript(
      'fails',
      'export const execute = (requests) => requests.map(() => Object.assign(new Error("it fails"), { code: "NOT_FOUND" }));',
    );
    folder.addJavaScript('repeat', REPEAT, DECOUPLED);
    folder.addJavaScript('endless', ENDLESS, DECOUPLED);
    for (const name of ['order', 'bypass', 'half_close', 'in_flight', 'left', 'late'])
      gates[name] = addGated(folder, name);
    served = await deploy(mode, [folder.path]);
    client = grpcClient(served.gateways[0]?.grpc ?? '');
  });
  afterAll(async () => {
    client.close();
    for (const { open } of Object.values(gates)) open();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  /** Sends all, half-closes, and gives all answers. */
  async function ask(requests: readonly Parameters<typeof valueRequest>[], options = {}) {
    const stream = client.stream(options);
    for (const request of requests) stream.send(valueRequest(...request));
    stream.halfClose();
    const answers = await stream.rest();
    return { told: answers.map(told), answers, ending: await stream.ended };
  }

  describe('answers of models that give one', () => {
    test('come in the order of their requests, however long the first takes', async () => {
      const stream = client.stream();
      stream.send(valueRequest('order', 0, { id: 'r0' }));
      for (let value = 1; value < 10; value++) stream.send(valueRequest('echo', value, { id: `r${value}` }));
      const others = () => metric(served.metrics, 'nv_inference_request_success', { model: 'echo' });
      await eventually('all others are answered', async () => (await others()) >= 9);
      gate('order').open();
      const found: string[] = [];
      for (let count = 0; count < 10; count++) found.push(told(await stream.next()));
      expect(found).toEqual(Array.from({ length: 10 }, (_, value) => `r${value} ${value}!`));
      stream.halfClose();
      expect([await stream.rest(), (await stream.ended).code]).toEqual([[], status.OK]);
    });

    test('are waited for after the client has sent its last request', async () => {
      const stream = client.stream();
      stream.send(valueRequest('half_close', 3, { id: 'r' }));
      stream.halfClose();
      await eventually('it runs', async () => gate('half_close').begun().length === 1);
      gate('half_close').open();
      expect((await stream.rest()).map(told)).toEqual(['r 3!']);
      expect((await stream.ended).code).toBe(status.OK);
    });
  });

  describe('answers of decoupled models', () => {
    test('come as produced, past a slow request of another model', async () => {
      const stream = client.stream();
      stream.send(valueRequest('bypass', 7, { id: 'slow' }));
      stream.send(valueRequest('repeat', 2, { id: 'fast' }));
      expect([told(await stream.next()), told(await stream.next())]).toEqual(['fast 0', 'fast 1']);
      gate('bypass').open();
      expect(told(await stream.next())).toBe('slow 7!');
      stream.halfClose();
      expect((await stream.ended).code).toBe(status.OK);
    });

    test('an error among them is one of them', async () => {
      const { answers, told: found, ending } = await ask([['repeat', 4, { id: 'r', model_version: '1' }]]);
      expect(found).toEqual(['r 0', 'r 1', 'r not the third', 'r 3']);
      expect(answers[2]?.infer_response).toMatchObject({ id: 'r', model_name: 'repeat', model_version: '1' });
      expect(ending.code).toBe(status.OK);
    });

    test('BC-124: none is nothing; asked for, exactly one empty final answer', async () => {
      expect(await ask([['repeat', 0, { id: 'r' }]])).toMatchObject({ told: [], ending: { code: status.OK } });
      const asked = await ask([['repeat', 0, { id: 'r', parameters: EMPTY_FINAL }]]);
      expect(asked.told).toEqual(['r end!']);
      const [empty] = asked.answers;
      expect(empty?.infer_response?.model_name).toBe('repeat');
      expect([empty?.infer_response?.model_version ?? '', empty?.infer_response?.outputs ?? []]).toEqual(['', []]);
    });

    test('the empty final answer has the version as the request gave it', async () => {
      const { answers } = await ask([['repeat', 1, { model_version: '1', parameters: EMPTY_FINAL }]]);
      expect(answers.map(told)).toEqual([' 0', ' end!']);
      expect(answers[1]?.infer_response?.model_version).toBe('1');
    });

    test('BC-121: a call for one answer is refused', async () => {
      const { code, details } = await client.infer(valueRequest('repeat', 1));
      expect([code, details]).toEqual([
        status.UNIMPLEMENTED,
        "ModelInfer RPC doesn't support models with decoupled transaction policy",
      ]);
    });
  });

  describe('errors', () => {
    const UNKNOWN = "Request for unknown model: 'none' is not found";

    test('of what is refused have the id alone, and the stream goes on', async () => {
      const missing = valueRequest('echo', 1, { id: 'm', inputs: [], raw_input_contents: [] });
      const stream = client.stream();
      for (const request of [valueRequest('none', 1, { id: 'u' }), missing, valueRequest('echo', 5, { id: 'r' })]) {
        stream.send(request);
      }
      const [unknown, without, right] = [await stream.next(), await stream.next(), await stream.next()];
      expect(unknown).toMatchObject({ error_message: UNKNOWN, infer_response: { id: 'u' } });
      expect(without?.error_message).toMatch(/\[request id: m\] expected 1 inputs but got 0 inputs/);
      for (const answer of [unknown, without]) {
        expect(answer?.infer_response?.parameters ?? {}).toEqual({});
        expect(answer?.infer_response?.model_name ?? '').toBe('');
      }
      expect(told(right)).toBe('r 5!');
      stream.halfClose();
      expect((await stream.ended).code).toBe(status.OK);
    });

    test('of a model name it and its version as given, and the stream goes on', async () => {
      const { answers, told: found } = await ask([
        ['fails', 1, { id: 'f', model_version: '1' }],
        ['echo', 2, { id: 'r' }],
      ]);
      expect(found).toEqual(['f it fails!', 'r 2!']);
      expect(answers[0]?.infer_response).toMatchObject({ model_name: 'fails', model_version: '1' });
    });

    test('BC-125: with triton_grpc_error one of a model ends the stream by its status', async () => {
      const stream = client.stream(GRPC_ERRORS);
      stream.send(valueRequest('none', 1, { id: 'u' }));
      expect(await stream.next()).toMatchObject({ error_message: UNKNOWN });
      stream.send(valueRequest('in_flight', 4));
      await eventually('another request runs', async () => gate('in_flight').begun().length === 1);
      stream.send(valueRequest('repeat', 3, { id: 'r' }));
      expect((await stream.rest()).map(told)).toEqual(['r 0', 'r 1']);
      expect(await stream.ended).toEqual({ code: status.INTERNAL, details: 'not the third' });
      await eventually('the other is cancelled', async () => gate('in_flight').aborted().length === 1);
    });

    test('with triton_grpc_error, the status of an only answer', async () => {
      const { told: found, ending } = await ask([['fails', 1]], GRPC_ERRORS);
      expect([found, ending]).toEqual([[], { code: status.NOT_FOUND, details: 'it fails' }]);
    });
  });

  describe('who leaves', () => {
    const endedStreams = async () => valueIn((await ask([['endless', -1]])).answers[0]?.infer_response);

    test('by cancelling ends every request of the stream, and its signal is aborted', async () => {
      const before = await endedStreams();
      const stream = client.stream();
      stream.send(valueRequest('left', 5));
      stream.send(valueRequest('endless', 1));
      expect(told(await stream.next())).toBe(' 0');
      await eventually('both run', async () => gate('left').begun().length === 1);
      stream.cancel();
      await stream.rest();
      expect((await stream.ended).code).toBe(status.CANCELLED);
      await eventually('one is cancelled', async () => gate('left').aborted().length === 1);
      expect(await endedStreams()).toBe((before ?? 0) + 1);
    });

    test('by its deadline likewise', async () => {
      const before = await endedStreams();
      const stream = client.stream({ deadlineMs: 3_000 });
      stream.send(valueRequest('late', 5));
      stream.send(valueRequest('endless', 1));
      await stream.rest();
      expect((await stream.ended).code).toBe(status.DEADLINE_EXCEEDED);
      await eventually('one is cancelled', async () => gate('late').aborted().length === 1);
      expect(await endedStreams()).toBe((before ?? 0) + 1);
    });
  });
});
