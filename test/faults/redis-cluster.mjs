import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Cluster, Redis } from 'ioredis';
import { freePorts } from '../free-ports.mjs';
import { DURABLE, startRedisNode } from '../redis-node.mjs';

const NODES = 3;
const SLOTS = 16_384;
const HOST = '127.0.0.1';
const FORM_LIMIT_MS = 20_000;
const LOOK_MS = 50;

/** A Redis Cluster of three primaries without replicas. */
export async function startRedisCluster() {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-cluster-'));
  const ports = await freePorts(2 * NODES);
  const nodes = Array.from({ length: NODES }, (_, index) => ({ host: HOST, port: ports[index] }));
  const servers = await Promise.all(
    nodes.map(({ port }, index) =>
      startRedisNode(join(folder, String(index)), [
        ...['--port', String(port), '--bind', HOST, '--cluster-enabled', 'yes'],
        ...['--cluster-port', String(ports[NODES + index]), ...DURABLE],
      ]),
    ),
  );
  await form(nodes, ports.slice(NODES));
  const client = new Cluster(nodes);
  client.on('error', () => {});
  return {
    url: `redis://${nodes.map(({ host, port }) => `${host}:${port}`).join(',')}`,
    connection: { nodes },
    jobPrefix: '{bull-%m}',
    async ask(command, ...args) {
      if (command !== 'KEYS') return client.call(command, ...args);
      const keys = await Promise.all(client.nodes('master').map((node) => node.call(command, ...args)));
      return keys.flat();
    },
    async stop() {
      client.disconnect();
      await Promise.all(servers.map((server) => server.stop()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Shares the slots out and introduces the nodes to each other; resolves once each knows all. */
async function form(nodes, busPorts) {
  const clients = nodes.map((node) => new Redis(node));
  try {
    const first = (index) => Math.floor((index * SLOTS) / NODES);
    await Promise.all(
      clients.map((one, index) => one.call('CLUSTER', 'ADDSLOTSRANGE', first(index), first(index + 1) - 1)),
    );
    // Two that took the same epoch would settle it by themselves, only later.
    await Promise.all(clients.map((one, index) => one.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)));
    const [, ...others] = nodes.entries();
    for (const [index, { host, port }] of others) await clients[0].call('CLUSTER', 'MEET', host, port, busPorts[index]);
    const isFormed = async () => {
      const infos = await Promise.all(clients.map((one) => one.call('CLUSTER', 'INFO')));
      return infos.every((info) => /cluster_state:ok/.test(info) && info.includes(`cluster_known_nodes:${NODES}`));
    };
    for (const start = performance.now(); !(await isFormed()); await delay(LOOK_MS)) {
      if (performance.now() - start > FORM_LIMIT_MS) throw new Error('the Redis Cluster does not form');
    }
  } finally {
    for (const one of clients) one.disconnect();
  }
}
