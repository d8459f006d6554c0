/** Jobs from door to door: HTTP and BullMQ producers, a gateway, coordinators, a worker that echoes, a real Redis. */
import { LIMITS, type ModelRecord, type ModelSource, parseModelConfig } from '@nereid/config';
import { createCoordinator } from '@nereid/coordinator';
import { createGateway, createHttpServer, createJobs, type HttpServer } from '@nereid/gateway';
import type { DescribedMessage, ExecuteMessage, Message } from '@nereid/protocol';
import { createLog, createRegistry, systemClock } from '@nereid/runtime';
import {
  connectRedis,
  createJobQueues,
  createLocalDirectory,
  createLocalTransport,
  type Directory,
  type JobQueues,
  type Transport,
  timing,
} from '@nereid/transport';
import { type RedisServerFixture, startRedisServer } from '@nereid/transport/redis-server-fixture';
import { Queue, QueueEvents } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { servicesFixture } from '../../packages/gateway/src/services-fixture.ts';

const log = createLog({ level: 'silent' });
const clock = systemClock();
const RUN_MS = 1;
/** Locks of half a second. */
const TIMING = timing(0.2);

let server: RedisServerFixture;
let cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  server = await startRedisServer();
});
afterAll(() => server.stop());
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
  cleanups = [];
});

function source(name: string): ModelSource {
  const text = `name: "${name}" backend: "javascript" max_batch_size: 8 dynamic_batching { }
    input { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } output { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] }`;
  return { name, directory: '', config: parseModelConfig(text, ''), labels: {}, versions: ['1'], contentHash: 'x' };
}

function openQueues(): JobQueues {
  const connector = connectRedis(server.url, { name: 'test:1' });
  const queues = createJobQueues({ connector, timing: TIMING, clock, log });
  cleanups.push(async () => {
    await queues.close();
    connector.close();
  });
  return queues;
}

interface Cluster {
  readonly transport: Transport;
  readonly directory: Directory<ModelRecord>;
  readonly runs: number[];
  /** While true batches stay unanswered. */
  stuck: boolean;
}

/** A worker that answers each batch after a millisecond, each output its input. */
async function openCluster(): Promise<Cluster> {
  const transport = createLocalTransport({ messages_max: 100_000, bytes_max: 1e9 });
  const directory = createLocalDirectory<ModelRecord>();
  const cluster: Cluster = { transport, directory, runs: [], stuck: false };
  const describe = (model: string, askedAt: number, loaded: boolean): DescribedMessage => ({
    kind: 'described',
    model,
    worker: 'wk-1',
    askedAt,
    streams: [],
    draining: false,
    versions: loaded
      ? [
          {
            version: '1',
            state: 'READY',
            reason: '',
            instances: [{ index: 0, name: `${model}_0_0`, ready: true, passive: false, batches: [] }],
            running: [],
          },
        ]
      : [],
  });
  const finish = (message: ExecuteMessage) => {
    cluster.runs.push(message.entries.length);
    for (const { id, replyTo, request } of message.entries) {
      const outputs = request.inputs.map((input) => ({ ...input, name: 'OUTPUT' }));
      const response = { modelName: message.model, modelVersion: '1', id: request.id, parameters: {}, outputs };
      mailbox.send(replyTo, {
        kind: 'response',
        model: message.model,
        id,
        outcome: { ok: true, response },
        execution: `wk-1/${message.batch}`,
        chunk: 0,
        last: true,
      });
    }
    mailbox.send(message.epoch.owner, {
      kind: 'done',
      model: message.model,
      epoch: message.epoch,
      version: '1',
      worker: 'wk-1',
      batch: message.batch,
      instance: message.instance,
      timing: { waitNs: 0, inputNs: 0, inferNs: 1_000_000, outputNs: 0 },
      executed: true,
      entries: message.entries.map(({ id }) => ({ id, result: 'ok', error: null })),
    });
  };
  const loaded = new Set<string>();
  const take = (message: Message) => {
    if (message.kind === 'control') {
      if (message.action === 'load') loaded.add(message.model);
      else loaded.delete(message.model);
    } else if (message.kind === 'describe') {
      mailbox.send(message.epoch.owner, describe(message.model, message.askedAt, loaded.has(message.model)));
    } else if (message.kind === 'execute' && !cluster.stuck) {
      setTimeout(() => finish(message), RUN_MS);
    }
  };
  const mailbox = transport.open('wk-1', (messages) => messages.forEach(take));
  await directory.register({ id: 'wk-1', role: 'worker', draining: false });
  return cluster;
}

/** Owns the model; the returned call stops it. */
async function startCoordinator(cluster: Cluster, model: string, jobs: JobQueues, id = 'co-1') {
  const reader = {
    folders: async () => [{ name: model, conflict: null }],
    list: async () => [],
    read: async () => source(model),
    directory: async () => '',
    versions: async () => ['1'],
  };
  const { transport, directory } = cluster;
  const options = { controlMode: 'none' } as const;
  const coordinator = createCoordinator({
    id,
    clock,
    transport,
    directory,
    log,
    registry: createRegistry(),
    reader,
    jobs,
    options,
  });
  cleanups.push(() => coordinator.stop(100));
  expect(await coordinator.start()).toEqual([]);
}

function startHttp({ transport, directory }: Cluster, queues: JobQueues): HttpServer {
  const gateway = createGateway({
    id: 'gw-1',
    clock,
    transport,
    directory,
    log,
    limits: LIMITS,
  });
  const jobs = createJobs({ queues, directory, clock, gateway });
  const http = createHttpServer({
    gateway,
    services: servicesFixture(directory),
    jobs,
    clock,
    log,
    serverId: 'x',
    version: '0',
    address: '127.0.0.1',
    port: 0,
    maxInputBytes: 1e6,
  });
  cleanups.push(
    () => gateway.close(),
    () => http.close(100),
  );
  return http;
}

const body = (value: number, more: object = {}) => ({
  inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [1, 1], data: [value] }],
  ...more,
});

function producer(queues: JobQueues, model: string) {
  const connection = new Redis({ path: server.socket, maxRetriesPerRequest: null });
  const { name, prefix } = queues.queue(model);
  const queue = new Queue(name, { connection, prefix });
  const events = new QueueEvents(name, { connection, prefix, lastEventId: '0' });
  cleanups.push(
    () => connection.disconnect(),
    () => queue.close(),
    () => events.close(),
  );
  return { queue, events };
}

test('1,000 jobs over HTTP of a model of 1 ms, each waited for at once, all have their result (BC-127)', async () => {
  const queues = openQueues();
  const cluster = await openCluster();
  const http = startHttp(cluster, queues);
  await startCoordinator(cluster, 'many', queues);
  const values = await Promise.all(
    Array.from({ length: 1000 }, async (_, index) => {
      const submitted = await http.inject({ method: 'POST', url: '/v2/models/many/jobs', payload: body(index) });
      expect([submitted.statusCode, submitted.body.slice(0, 200)]).toEqual([202, expect.any(String)]);
      const result = await http.inject(`${submitted.json().result_url}?wait=25s`);
      return result.json().outputs[0].data[0];
    }),
  );
  expect(values).toEqual(Array.from({ length: 1000 }, (_, index) => index));
  // Jobs wait together as requests do: the model ran far less often than once for each.
  expect(cluster.runs.length).toBeLessThan(500);
});

test('a plain BullMQ producer gets its return value, and why its job failed', async () => {
  const queues = openQueues();
  const cluster = await openCluster();
  await startCoordinator(cluster, 'plain', queues);
  const { queue, events } = producer(queues, 'plain');
  await events.waitUntilReady();
  const good = await queue.add('anything', body(7, { id: 'r' }));
  expect(await good.waitUntilFinished(events, 20_000)).toEqual({
    id: 'r',
    model_name: 'plain',
    model_version: '1',
    outputs: [{ name: 'OUTPUT', datatype: 'INT32', shape: [1, 1], data: [7] }],
  });
  const bad = await queue.add(
    'anything',
    body(7, { inputs: [{ name: 'X', datatype: 'INT32', shape: [1, 1], data: [1] }] }),
    {
      attempts: 5,
    },
  );
  await expect(bad.waitUntilFinished(events, 20_000)).rejects.toThrow(
    "INVALID_ARG: unexpected inference input 'X' for model 'plain'",
  );
  expect((await queue.getJob(bad.id ?? ''))?.attemptsMade).toBe(1);
});

test('jobs of an owner that dies are run by the next, and each keeps one result (R32)', async () => {
  const cluster = await openCluster();
  const dyingConnector = connectRedis(server.url, { name: 'co-1' });
  const dying = createJobQueues({ connector: dyingConnector, timing: TIMING, clock, log });
  cleanups.push(() => dying.close());
  cluster.stuck = true;
  let dead = false;
  const { directory } = cluster;
  const acquire: typeof directory.acquire = async (...lease) => (dead ? undefined : directory.acquire(...lease));
  await startCoordinator({ ...cluster, directory: { ...directory, acquire } }, 'heir', dying, 'co-1');
  const queues = openQueues();
  const { queue, events } = producer(queues, 'heir');
  let completions = 0;
  events.on('completed', () => completions++);
  await events.waitUntilReady();
  const jobs = await Promise.all([1, 2, 3].map((value) => queue.add('x', body(value))));
  await expect.poll(() => queues.counts('heir')).toMatchObject({ running: 3 });
  // As a killed process: nothing more reaches Redis, and its lease is taken by another.
  dead = true;
  dyingConnector.close();
  await cluster.directory.release('heir', 'co-1');
  cluster.stuck = false;
  await startCoordinator(cluster, 'heir', queues, 'co-2');
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20_000)));
  expect(results.map(({ outputs }) => outputs[0].data[0])).toEqual([1, 2, 3]);
  expect(await queues.counts('heir')).toMatchObject({ completed: 3, failed: 0, running: 0, waiting: 0 });
  expect(completions).toBe(3);
});
