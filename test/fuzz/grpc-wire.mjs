import { connect as connectHttp2, constants } from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync, inflateSync } from 'node:zlib';

/** gRPC over bare HTTP/2, so that frames and metadata may be anything. */

const ANSWER_LIMIT_MS = 20_000;
const HANG_MS = 60;
const SETTLE_MS = 150;
const PAUSE_MS = 10;
const PIECE_BYTES = 40;
const FRAME_HEAD_BYTES = 5;

/** A client of the gRPC server at `url` (`http://host:port`). */
export function createGrpcWire(url) {
  let session;
  const open = () => {
    if (session === undefined || session.closed || session.destroyed) {
      session = connectHttp2(url);
      session.on('error', () => {});
    }
    return session;
  };
  return {
    /** @returns {Promise<{ messages, headers, trailers, code, text, ended, problem }>} what came of a call */
    async exchange(call) {
      if (call.noise !== undefined) return makeNoise(url, call.noise);
      if (call.expect !== 'any') return talk(open(), call);
      // A connection of its own: the server may end it, or refuse what comes after, and the other calls with it.
      const alone = connectHttp2(url);
      alone.on('error', () => {});
      const result = await talk(alone, call);
      alone.destroy();
      return result;
    },
    close() {
      session?.destroy();
      session = undefined;
    },
  };
}

async function talk(session, call) {
  const { headers, path, frames, leaves } = call;
  const result = { messages: [], headers: {}, trailers: {}, ended: false };
  let stream;
  try {
    stream = session.request(
      { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers },
      { endStream: false },
    );
  } catch (error) {
    // Node's own client does not send everything.
    return { ...result, ended: true, text: '', unsent: error.message };
  }
  const chunks = [];
  const over = new Promise((resolve) => {
    stream.on('response', (found) => Object.assign(result.headers, found));
    stream.on('trailers', (found) => Object.assign(result.trailers, found));
    stream.on('data', (chunk) => chunks.push(chunk));
    stream.on('error', (error) => {
      result.error = error.message;
    });
    stream.on('close', () => {
      result.ended = true;
      resolve();
    });
  });
  for (const frame of frames) {
    for (const piece of piecesOf(call, frame)) {
      if (stream.destroyed) break;
      stream.write(piece);
      if (call.slow) await delay(PAUSE_MS);
    }
  }
  if (leaves === 'reset') stream.close(constants.NGHTTP2_CANCEL);
  else if (leaves === 'cut') session.destroy();
  else if (leaves !== 'open') stream.end();
  const mayHang = call.hangs || leaves !== undefined;
  await Promise.race([
    over,
    delay(mayHang ? (call.hangs ? SETTLE_MS : HANG_MS) : ANSWER_LIMIT_MS, undefined, { ref: false }),
  ]);
  if (!result.ended) {
    stream.close(constants.NGHTTP2_CANCEL);
    if (!mayHang) result.problem = `no answer within ${ANSWER_LIMIT_MS} ms`;
    await Promise.race([over, delay(SETTLE_MS, undefined, { ref: false })]);
  }
  readAnswer(result, Buffer.concat(chunks));
  return result;
}

function* piecesOf(call, { flag, body, announced }) {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt8(flag);
  head.writeUInt32BE(announced ?? body.length, 1);
  const bytes = Buffer.concat([head, body]);
  if (!call.pieces) {
    yield bytes;
    return;
  }
  const size = Math.max(PIECE_BYTES, Math.ceil(bytes.length / 10));
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Messages, status and text of what has come. An answer of trailers alone has them among its headers. */
function readAnswer(result, body) {
  const code = result.trailers['grpc-status'] ?? result.headers['grpc-status'];
  result.code = code === undefined ? undefined : Number(code);
  try {
    result.text = decodeURIComponent(result.trailers['grpc-message'] ?? result.headers['grpc-message'] ?? '');
  } catch (error) {
    result.problem ??= `grpc-message is not percent-encoded: ${error.message}`;
  }
  const encoding = result.headers['grpc-encoding'];
  for (let at = 0; at < body.length; ) {
    if (at + FRAME_HEAD_BYTES > body.length) break;
    const end = at + FRAME_HEAD_BYTES + body.readUInt32BE(at + 1);
    if (end > body.length) break;
    const message = body.subarray(at + FRAME_HEAD_BYTES, end);
    const packed = body[at] === 1;
    result.messages.push(packed ? (encoding === 'gzip' ? gunzipSync(message) : inflateSync(message)) : message);
    at = end;
  }
}

/** Bytes that are no HTTP/2, on a connection of their own. */
async function makeNoise(url, noise) {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  const closed = new Promise((resolve) => socket.once('close', resolve));
  socket.resume();
  socket.write(noise);
  await Promise.race([closed, delay(SETTLE_MS, undefined, { ref: false })]);
  socket.destroy();
  return { messages: [], headers: {}, trailers: {}, ended: true, text: '' };
}
