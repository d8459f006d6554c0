import { mkdirSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { freePorts } from '../free-ports.mjs';
import { DURABLE, startRedisNode } from '../redis-node.mjs';

const HOST = '127.0.0.1';
const NAME = 'nereid-primary';
const DOWN_AFTER_MS = 1_000;
const LIMIT_MS = 30_000;
const LOOK_MS = 50;

/** A primary, a replica of it, and one Sentinel that fails over when the primary is away for a second. */
export async function startSentinelRedis() {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-sentinel-'));
  const [sentinelPort, ...ports] = await freePorts(3);
  const servers = new Map();
  const startServer = async (port, more = []) => {
    const args = ['--port', String(port), '--bind', HOST, ...DURABLE, ...more];
    servers.set(port, await startRedisNode(join(folder, String(port)), args));
  };
  await startServer(ports[0]);
  await startServer(ports[1], ['--replicaof', `${HOST} ${ports[0]}`]);
  const first = new Redis({ host: HOST, port: ports[0] });
  await until('the replica follows', () => isFollowed(first));
  first.disconnect();
  const sentinel = await startSentinel(join(folder, 'sentinel'), sentinelPort, ports[0]);
  const asking = new Redis({ host: HOST, port: sentinelPort });
  const connection = { sentinels: [{ host: HOST, port: sentinelPort }], name: NAME };
  const client = new Redis(connection);
  for (const one of [asking, client]) one.on('error', () => {});
  const primaryPort = async () => Number((await asking.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', NAME))[1]);
  return {
    url: `redis-sentinel://${HOST}:${sentinelPort}/${NAME}`,
    connection,
    jobPrefix: 'bull',
    ask: (...command) => client.call(...command),
    /** Kills the primary. Resolves once the other one is it; `follow` starts the dead one again as its replica. */
    async failOver() {
      const old = await primaryPort();
      await servers.get(old).stop('SIGKILL');
      await until('the replica becomes the primary', async () => (await primaryPort()) !== old);
      await until('it answers', () => isPrimary(client));
      return {
        async follow() {
          await startServer(old, ['--replicaof', `${HOST} ${await primaryPort()}`]);
          await until('the former primary follows', () => isFollowed(client));
        },
      };
    },
    async stop() {
      for (const one of [asking, client]) one.disconnect();
      await sentinel.stop();
      await Promise.all([...servers.values()].map((server) => server.stop()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function isPrimary(client) {
  try {
    return (await client.call('ROLE'))[0] === 'master';
  } catch {
    return false;
  }
}

async function isFollowed(client) {
  return /state=online/.test(await client.call('INFO', 'replication'));
}

/** It keeps what it learns in its file. */
async function startSentinel(folder, port, primaryPort) {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'sentinel.conf');
  const lines = [
    `port ${port}`,
    `bind ${HOST}`,
    `sentinel monitor ${NAME} ${HOST} ${primaryPort} 1`,
    `sentinel down-after-milliseconds ${NAME} ${DOWN_AFTER_MS}`,
    `sentinel failover-timeout ${NAME} 5000`,
  ];
  writeFileSync(file, `${lines.join('\n')}\n`);
  return startRedisNode(folder, [file, '--sentinel']);
}

async function until(what, condition) {
  for (const start = performance.now(); !(await condition()); await delay(LOOK_MS)) {
    if (performance.now() - start > LIMIT_MS) throw new Error(`not within ${LIMIT_MS} ms: ${what}`);
  }
}
