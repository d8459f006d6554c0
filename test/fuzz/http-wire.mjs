import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** HTTP over plain sockets, so that what is sent may be anything, and what comes back is seen as it is. */

const ANSWER_LIMIT_MS = 20_000;
/** For what was written to go out before the connection is destroyed. */
const LEAVE_MS = 1_000;
const HEAD_END = '\r\n\r\n';

/** @returns {{ exchange(delivery): Promise<Exchange>, close(): void }} a client of the server at `url` */
export function createWire(url) {
  const { hostname, port } = new URL(url);
  const idle = [];
  return {
    /**
     * Sends the `pieces` (bytes, or `{ pauseMs }`) and waits for `answers` answers, or the connection's end, or where
     * the request `hangs` for so many milliseconds. `leave` destroys the connection once all is sent, `end` half closes it.
     */
    async exchange(delivery) {
      for (;;) {
        const waiting = delivery.fresh ? undefined : idle.pop();
        const line = waiting ?? (await openLine(hostname, Number(port)));
        const result = await talk(line, delivery);
        // The server may end a connection that is between two requests.
        if (waiting !== undefined && result.ended && result.answers.length === 0 && !delivery.leave) continue;
        const isClean = !result.ended && result.problem === undefined && line.reader.left() === 0 && !delivery.fresh;
        if (isClean && result.answers.length === delivery.answers) idle.push(line);
        else line.socket.destroy();
        return result;
      }
    },
    close() {
      for (const { socket } of idle.splice(0)) socket.destroy();
    },
  };
}

async function openLine(host, port) {
  const socket = connect({ host, port, noDelay: true });
  const line = { socket, reader: createReader(), ended: false, changed: () => {} };
  socket.on('data', (chunk) => {
    line.reader.push(chunk);
    line.changed();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    line.ended = true;
    line.reader.end();
    line.changed();
  });
  await new Promise((resolve) => {
    socket.once('connect', resolve);
    socket.once('close', resolve);
  });
  return line;
}

async function talk(line, { pieces, answers, method, hangs, leave, end }) {
  const { socket, reader } = line;
  const done = [];
  reader.begin(method, (answer) => done.push(answer));
  const over = () => line.ended || done.length >= answers || reader.problem() !== undefined;
  const waited = new Promise((resolve) => {
    line.changed = () => {
      if (over()) resolve('over');
    };
  });
  for (const piece of pieces) {
    if (line.ended) break;
    if (Buffer.isBuffer(piece)) socket.write(piece);
    else await delay(piece.pauseMs);
  }
  if (leave) {
    // What was written goes out first, the rest of the exchange never comes.
    const sent = new Promise((resolve) => socket.write('', resolve));
    await Promise.race([sent, delay(LEAVE_MS, undefined, { ref: false })]);
    socket.destroy();
  } else if (end) {
    socket.end();
  }
  line.changed();
  const late = await Promise.race([waited, delay(hangs ?? ANSWER_LIMIT_MS, 'late', { ref: false })]);
  line.changed = () => {};
  const problem =
    reader.problem() ?? (late === 'late' && hangs === undefined ? `no answer within ${ANSWER_LIMIT_MS} ms` : undefined);
  return { answers: done, ended: line.ended, problem };
}

/** Takes bytes of a connection and hands over each answer: `{ status, headers, body }`, names in lower case. */
function createReader() {
  let buffer = Buffer.alloc(0);
  let method = 'GET';
  let take = () => {};
  let head;
  let problem;
  let over = false;

  const finish = (body, used) => {
    take({ status: head.status, headers: head.headers, body });
    buffer = buffer.subarray(used);
    head = undefined;
  };

  const readHead = () => {
    const end = buffer.indexOf(HEAD_END);
    if (end < 0) return false;
    const [first, ...lines] = buffer.toString('latin1', 0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(first)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no status line: ${JSON.stringify(first.slice(0, 80))}`);
    const headers = new Map();
    for (const line of lines) {
      const [, name, value] = /^([\w!#$%&'*+.^`|~-]+): ?(.*)$/s.exec(line) ?? [];
      if (name === undefined) throw new Error(`no header line: ${JSON.stringify(line.slice(0, 80))}`);
      headers.set(name.toLowerCase(), value);
    }
    buffer = buffer.subarray(end + HEAD_END.length);
    if (status >= 200) head = { status, headers };
    return true;
  };

  const readBody = () => {
    const { status, headers } = head;
    if (method === 'HEAD' || status === 204 || status === 304) return finish(Buffer.alloc(0), 0) ?? true;
    if (headers.get('transfer-encoding') === 'chunked') return readChunks();
    const length = headers.get('content-length');
    if (length === undefined) {
      if (!over) return false;
      finish(buffer, buffer.length);
      return true;
    }
    if (!/^\d+$/.test(length)) throw new Error(`a length of ${length}`);
    if (buffer.length < Number(length)) return false;
    finish(buffer.subarray(0, Number(length)), Number(length));
    return true;
  };

  const readChunks = () => {
    const parts = [];
    let at = 0;
    for (;;) {
      const line = buffer.indexOf('\r\n', at);
      if (line < 0) return false;
      const size = Number.parseInt(buffer.toString('latin1', at, line), 16);
      if (!(size >= 0)) throw new Error('a chunk without a size');
      const start = line + 2;
      if (buffer.length < start + size + 2) return false;
      parts.push(buffer.subarray(start, start + size));
      at = start + size + 2;
      if (size === 0) break;
    }
    finish(Buffer.concat(parts), at);
    return true;
  };

  const look = () => {
    try {
      while (problem === undefined && (head === undefined ? readHead() : readBody()));
    } catch (error) {
      problem = `the answer is no HTTP: ${error.message}`;
    }
  };
  return {
    begin(ofMethod, taker) {
      method = ofMethod;
      take = taker;
    },
    push(chunk) {
      buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk]);
      look();
    },
    end() {
      over = true;
      look();
      if (head !== undefined) problem ??= 'the answer is cut short';
    },
    left: () => buffer.length,
    problem: () => problem,
  };
}
