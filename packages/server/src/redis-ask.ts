import { connect } from 'node:net';
import type { Clock } from '@nereid/runtime';

export type RedisReply = string | readonly RedisReply[];

export type RedisAnswer =
  | { readonly ok: true; readonly reply: RedisReply }
  /** An error reply, e.g. `LOADING …`. */
  | { readonly ok: false; readonly error: string }
  /** It hung up or was silent for too long; not `connected`: nobody listens. */
  | { readonly ok: false; readonly error: undefined; readonly connected: boolean };

/** The longest that is asked for is INFO, some 10 KB. */
const REPLY_BYTES_MAX = 1_048_576;

/**
 * Asks a Redis one thing over a connection of its own: for the few words needed before and after a
 * client's life (PING, INFO, CONFIG GET, SHUTDOWN), where a client that reconnects is in the way.
 */
export function askRedis(
  socketPath: string,
  command: readonly string[],
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
): Promise<RedisAnswer> {
  return new Promise((resolve) => {
    const socket = connect(socketPath);
    let connected = false;
    const giveUp = () => finish({ ok: false, error: undefined, connected });
    const finish = (answer: RedisAnswer) => {
      timer.cancel();
      socket.destroy();
      resolve(answer);
    };
    const timer = clock.at(clock.nowUs() + timeoutMs * 1000, giveUp);
    let received = '';
    socket.setEncoding('latin1');
    socket.once('connect', () => {
      connected = true;
    });
    socket.once('error', giveUp);
    socket.once('close', giveUp);
    socket.on('data', (text: string) => {
      received += text;
      const reader = { text: received, at: 0 };
      const answer = readAnswer(reader);
      if (answer !== undefined) finish(answer);
      else if (received.length > REPLY_BYTES_MAX) giveUp();
    });
    socket.write(encodeCommand(command), 'latin1');
  });
}

function encodeCommand(command: readonly string[]): string {
  const parts = command.map((part) => `$${Buffer.byteLength(part, 'latin1')}\r\n${part}\r\n`);
  return `*${command.length}\r\n${parts.join('')}`;
}

interface Reader {
  readonly text: string;
  at: number;
}

/** Undefined while the reply is not whole. */
function readAnswer(reader: Reader): RedisAnswer | undefined {
  if (!reader.text.startsWith('-')) {
    const reply = readReply(reader);
    return reply === undefined ? undefined : { ok: true, reply };
  }
  const error = readLine(reader);
  return error === undefined ? undefined : { ok: false, error: error.slice(1) };
}

function readLine(reader: Reader): string | undefined {
  const end = reader.text.indexOf('\r\n', reader.at);
  if (end < 0) return undefined;
  const line = reader.text.slice(reader.at, end);
  reader.at = end + 2;
  return line;
}

/** RESP 2 (redis.io/docs/reference/protocol-spec): simple strings, integers, bulk strings and arrays. A nil is ''. */
function readReply(reader: Reader): RedisReply | undefined {
  const line = readLine(reader);
  if (line === undefined) return undefined;
  const length = Number(line.slice(1));
  if (line.startsWith('$') && length >= 0) {
    const bulk = reader.text.slice(reader.at, reader.at + length);
    if (reader.text.length < reader.at + length + 2) return undefined;
    reader.at += length + 2;
    return bulk;
  }
  if (line.startsWith('$')) return '';
  if (!line.startsWith('*')) return line.slice(1);
  const items: RedisReply[] = [];
  for (let index = 0; index < length; index++) {
    const item = readReply(reader);
    if (item === undefined) return undefined;
    items.push(item);
  }
  return items;
}
