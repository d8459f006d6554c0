import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Deployment, deploy, MODES } from '../deployment.mjs';
import { addGated, type GatedModel } from './gated-model.ts';
import { type GrpcAnswer, type GrpcClient, grpcClient, valueIn, valueRequest } from './grpc-client.ts';
import { eventually, metric } from './metrics.ts';
import { createModelFolder, type ModelFolder } from './model-folder.ts';
import { infer, oneInput } from './requests.ts';
import { limitMs, limitRatio } from './time-limits.ts';

// Bug cases about requests that nobody waits for any more; each name begins with the case's id.

const MODEL_MS = 500;
const SHORT_MS = 20;

/** Gives VALUE back after a while, one sleep for a whole batch. */
const sleeps = (ms: number) => `
  import { setTimeout as delay } from 'node:timers/promises';
  export async function execute(requests) {
    await delay(${ms});
    return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
  }`;

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: Deployment;
  let client: GrpcClient;
  let http: GatedModel;
  let grpc: GatedModel;
  let signalled: GatedModel;

  beforeAll(async () => {
    folder = createModelFolder();
    http = addGated(folder, 'over_http', { deaf: true });
    grpc = addGated(folder, 'over_grpc', { deaf: true });
    signalled = addGated(folder, 'signalled');
    folder.addJavaScript('echo', sleeps(0));
    folder.addJavaScript('batches', sleeps(MODEL_MS), 'dynamic_batching { }', { maxBatchSize: 8 });
    folder.addJavaScript('short', sleeps(SHORT_MS), 'dynamic_batching { }', { maxBatchSize: 64 });
    served = await deploy(mode, [folder.path]);
    client = grpcClient(served.gateways[0]?.grpc ?? '');
  });
  afterAll(async () => {
    client.close();
    for (const { open } of [http, grpc, signalled]) open();
    const endings = await served.stop();
    folder.remove();
    for (const { code, output } of endings) expect(code, output).toBe(0);
  });

  const counted = (model: string, name: string, labels = {}) => metric(served.metrics, name, { model, ...labels });
  const cancelled = (model: string) => counted(model, 'nv_inference_request_failure', { reason: 'CANCELED' });
  const waiting = (model: string) => counted(model, 'nv_inference_pending_request_count');
  /** What came before on the connections of the clients has been seen once another model has answered. */
  const roundTrip = async () => {
    expect((await infer(served.http, 'echo', oneInput('VALUE', 'INT32', [1], [0]))).status).toBe(200);
    expect((await client.infer(valueRequest('echo', 0))).code).toBe(status.OK);
  };
  const rowRequest = (model: string, value: number) =>
    valueRequest(model, value, { inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1, 1] }] });

  test('BC-079: of three HTTP clients that leave, at most the first runs', async () => {
    const { hostname, port } = new URL(served.http);
    const body = oneInput('VALUE', 'INT32', [1], [1]);
    const head = `POST /v2/models/over_http/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`;
    const sockets = await Promise.all(
      [1, 2, 3].map(async () => {
        const socket = connect(Number(port), hostname);
        await once(socket, 'connect');
        socket.write(head + body);
        return socket;
      }),
    );
    await eventually('one runs', async () => http.begun().length === 1);
    await eventually('two wait', async () => (await waiting('over_http')) === 2);
    for (const socket of sockets) socket.destroy();
    await roundTrip();
    http.open();
    expect((await infer(served.http, 'over_http', oneInput('VALUE', 'INT32', [1], [2]))).status).toBe(200);
    expect(http.begun()).toEqual([1, 2]);
    await eventually('all are counted', async () => (await cancelled('over_http')) === 3);
  });

  test('BC-080: two unary calls cancelled while they wait never run, and are counted', async () => {
    const calls = [1, 2, 3].map((value) => client.start(valueRequest('over_grpc', value)));
    await eventually('one runs', async () => grpc.begun().length === 1);
    await eventually('two wait', async () => (await waiting('over_grpc')) === 2);
    const [first] = grpc.begun();
    const others = calls.filter((_, index) => index + 1 !== first);
    for (const { cancel } of others) cancel();
    const codes = await Promise.all(others.map(async ({ answer }) => (await answer).code));
    expect(codes).toEqual([status.CANCELLED, status.CANCELLED]);
    await roundTrip();
    grpc.open();
    const left = calls.find((call) => !others.includes(call));
    expect(valueIn((await left?.answer)?.response)).toBe(first);
    await eventually('both are counted', async () => (await cancelled('over_grpc')) === 2);
    expect(await counted('over_grpc', 'nv_inference_exec_count')).toBe(1);
    expect(grpc.begun()).toEqual([first]);
  });

  test.each([
    ['cancelled', status.CANCELLED, undefined],
    ['past its deadline', status.DEADLINE_EXCEEDED, 3_000],
  ])('a call %s while it runs: its signal is aborted', async (_, code, deadlineMs) => {
    const before = signalled.aborted().length;
    const call = client.start(valueRequest('signalled', code), deadlineMs === undefined ? {} : { deadlineMs });
    await eventually('it runs', async () => signalled.begun().includes(code));
    if (deadlineMs === undefined) call.cancel();
    expect((await call.answer).code).toBe(code);
    await eventually('it hears of it', async () => signalled.aborted().length === before + 1);
    expect(signalled.aborted()).toContain(code);
  });

  test('BC-082: after 20 cancelled requests five succeed within three times that of the model', async () => {
    const calls = Array.from({ length: 20 }, (_, index) => client.start(rowRequest('batches', index)));
    // Spread over 2 s, in an order of its own.
    await Promise.all(
      calls.map(async ({ cancel }, index) => {
        await delay(((index * 7) % 20) * 100);
        cancel();
      }),
    );
    await Promise.all(calls.map(({ answer }) => answer));
    const began = performance.now();
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, index) => client.infer(rowRequest('batches', 100 + index))),
    );
    const tookMs = performance.now() - began;
    expect(answers.map(({ code, response }) => [code, valueIn(response)])).toEqual(
      answers.map((_, index) => [status.OK, 100 + index]),
    );
    expect(tookMs).toBeLessThan(limitMs(3 * MODEL_MS));
  });

  test('BC-083: a storm of time-outs leaves later requests as they were', async () => {
    const phase = async (): Promise<{ medianMs: number; codes: readonly number[] }> => {
      const times: number[] = [];
      const codes: number[] = [];
      for (let value = 0; value < 50; value++) {
        const began = performance.now();
        codes.push((await client.infer(rowRequest('short', value))).code);
        times.push(performance.now() - began);
      }
      return { medianMs: times.toSorted((a, b) => a - b)[25] ?? 0, codes };
    };
    const before = await phase();
    const storm: Promise<GrpcAnswer>[] = [];
    for (let value = 0; value < 200; value++) storm.push(client.infer(rowRequest('short', value), { deadlineMs: 10 }));
    const codes = (await Promise.all(storm)).map(({ code }) => code);
    expect(codes).toContain(status.DEADLINE_EXCEEDED);
    await eventually('nothing waits', async () => (await waiting('short')) === 0);
    const after = await phase();
    for (const { codes: each } of [before, after]) expect(new Set(each)).toEqual(new Set([status.OK]));
    expect(after.medianMs).toBeLessThan(limitRatio(2) * before.medianMs);
  });
});
