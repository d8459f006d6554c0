import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { findRedis, startRedisNode } from './redis-node.mjs';

/** Whether a Redis can be started here. */
export function hasRedis() {
  return findRedis() !== undefined;
}

/** Starts a Redis of its own on a unix socket in a temporary folder. `flags` come after ours. */
export async function startPrivateRedis(flags = []) {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-redis-'));
  const socket = join(folder, 'redis.sock');
  const place = ['--port', '0', '--unixsocket', socket, '--unixsocketperm', '700'];
  const start = () => startRedisNode(folder, [...place, '--save', '', '--maxmemory-policy', 'noeviction', ...flags]);
  let server = await start();
  return {
    url: `unix://${socket}`,
    connection: { path: socket },
    jobPrefix: 'bull',
    ask: (...command) => askRedis(socket, command),
    async restart({ signal, awayMs = 0 } = {}) {
      await server.stop(signal);
      await delay(awayMs);
      server = await start();
    },
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** One command on a connection of its own; its answer, or throws the error that Redis answered. */
async function askRedis(path, command) {
  const socket = connect({ path });
  const parts = [`*${command.length}`, ...command.flatMap((text) => [`$${Buffer.byteLength(text)}`, text]), ''];
  socket.write(parts.join('\r\n'));
  let received = '';
  try {
    for await (const chunk of socket) {
      received += chunk.toString('latin1');
      const read = readAnswer(received, 0);
      if (read?.error !== undefined) throw new Error(`${command.join(' ')}: ${read.error}`);
      if (read !== undefined) return read.value;
    }
    throw new Error(`${command.join(' ')}: the connection ended`);
  } finally {
    socket.destroy();
  }
}

/** An answer of RESP2 that begins at `at`, with where it ends; undefined while it is not whole. */
function readAnswer(text, at) {
  const lineEnd = text.indexOf('\r\n', at);
  if (lineEnd < 0) return undefined;
  const head = text.slice(at + 1, lineEnd);
  const begin = lineEnd + 2;
  switch (text[at]) {
    case '+':
      return { value: head, end: begin };
    case '-':
      return { error: head, end: begin };
    case ':':
      return { value: Number(head), end: begin };
    case '$': {
      const length = Number(head);
      if (length < 0) return { value: null, end: begin };
      if (text.length < begin + length + 2) return undefined;
      return { value: text.slice(begin, begin + length), end: begin + length + 2 };
    }
    default: {
      const value = [];
      let end = begin;
      for (let index = 0; index < Number(head); index += 1) {
        const read = readAnswer(text, end);
        if (read === undefined) return undefined;
        value.push(read.value);
        end = read.end;
      }
      return { value, end };
    }
  }
}
