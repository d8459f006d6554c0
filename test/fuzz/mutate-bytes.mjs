import { gzipSync } from 'node:zlib';
import { hurt } from './mutation.mjs';

/** Mutations of a request's path, method and header lines, and of the bytes of its body. */

const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'PROPFIND', 'QUERY'];
const BOMB_BYTES = 128 * 1024 * 1024;
const LENGTHS = ['-5', '0', '1', '100000', '99999999999999999999', 'abc', '12abc', '0x10', '', ' 5', '1.5'];

let bomb;

/** Far more than the server takes, in a few bytes. Made once. */
function bombBytes() {
  bomb ??= gzipSync(Buffer.alloc(BOMB_BYTES), { level: 9 });
  return bomb;
}

const cut = (text, dice) => dice.int(0, text.length);

export const BREAKING_HEAD = {
  method(request, dice) {
    request.method = dice.pick(METHODS);
    hurt(request);
  },
  path(request, dice) {
    const { path } = request;
    const at = cut(path, dice);
    request.path = dice.pick([
      `${path}/`,
      `/${path}`,
      path.replace('/v2', '/v2/.'),
      path.replace('/models', '/Models'),
      `${path.slice(0, at)}%${path.slice(at)}`,
      `${path.slice(0, at)}%00${path.slice(at)}`,
      `${path.slice(0, at)}/${path.slice(at)}`,
      `${path.slice(0, at)}..%2f${path.slice(at)}`,
      `http://other.example${path}`,
      `${path}${'/x'.repeat(2_000)}`,
      path.replace(/models\/[^/]+/, `models/${'m'.repeat(dice.pick([300, 60_000]))}`),
      path.slice(0, at),
      '*',
      '//',
    ]);
    hurt(request);
  },
  headerLength(request, dice) {
    request.headers.push(['Inference-Header-Content-Length', dice.pick(LENGTHS)]);
    hurt(request);
  },
  contentEncoding(request, dice) {
    request.headers.push([
      'Content-Encoding',
      dice.pick(['br', 'gzip', 'deflate', 'gzip, gzip', 'GZIP', 'zstd', 'x', '']),
    ]);
    hurt(request);
  },
  header(request, dice) {
    request.headers.push(
      dice.pick([
        ['X-Long', 'x'.repeat(dice.pick([1_000, 70_000]))],
        ['X Bad', 'name'],
        ['X-Nul', 'a\u0000b'],
        ['X-Latin', 'ünï'],
        ['Host', 'twice'],
        ['Content-Length', '7'],
        ['Transfer-Encoding', 'chunked, identity'],
        ['Expect', 'the-unexpected'],
        ['Upgrade', 'h2c'],
        ['Nereid-Priority', '2000'],
        ['Nereid-Attempts', '0'],
        ['Nereid-Delay-Ms', '-1'],
        ['Idempotency-Key', 'k'],
        ['triton-grpc-protocol-x', '1'],
      ]),
    );
    // Where a body is promised that never comes, the next request would be taken for it.
    request.fresh = true;
    hurt(request);
  },
  manyHeaders(request, dice) {
    for (let count = dice.pick([90, 1_500, 4_000]); count > 0; count -= 1) request.headers.push([`X-${count}`, 'v']);
    hurt(request);
  },
};

export const KEEPING_HEAD = {
  query(request, dice) {
    // Jobs read theirs.
    if (!request.path.includes('?')) request.path += dice.pick(['?', '?x=1', '?x=/v2/models&y', '?%']);
  },
  headerCase(request, dice) {
    request.headers = request.headers.map(([name, value]) => [
      dice.chance(0.5) ? name.toLowerCase() : name.toUpperCase(),
      value,
    ]);
    request.upperCase = dice.chance(0.5);
  },
  contentType(request, dice) {
    request.headers.push([
      'Content-Type',
      dice.pick(['application/json', 'text/plain', 'application/octet-stream', 'nonsense', 'multipart/form-data']),
    ]);
  },
  otherHeaders(request, dice) {
    request.headers.push([
      dice.pick(['X-Request-Id', 'Traceparent', 'User-Agent', 'Cookie', 'Authorization']),
      dice.pick(['a', '', '\t spaced \t', 'ü']),
    ]);
  },
  expectContinue(request) {
    request.headers.push(['Expect', '100-continue']);
  },
};

export const BREAKING_BODY = {
  truncate(request, dice) {
    // Valid JSON without its last bytes is none, but what follows it or is no JSON may be cut.
    const isJson = request.tail === undefined && request.raw === undefined && request.encoding === undefined;
    const whole = request.body.length;
    request.body = request.body.subarray(0, dice.int(0, Math.max(0, whole - 1)));
    hurt(request, isJson && request.kind === 'infer' && whole > 0 && !(request.style?.spaces > 0) ? 'refused' : 'any');
  },
  flipBits(request, dice) {
    request.body = Buffer.from(request.body);
    if (request.body.length === 0) return;
    for (let count = dice.pick([1, 1, 3, 20]); count > 0; count -= 1) {
      request.body[dice.int(0, request.body.length - 1)] ^= 1 << dice.int(0, 7);
    }
    hurt(request);
  },
  insert(request, dice) {
    const at = cut(request.body, dice);
    const what = dice.pick([
      Buffer.from([0]),
      Buffer.from([0xff]),
      Buffer.from([0xef, 0xbb, 0xbf]),
      Buffer.from('"'),
      dice.bytes(20),
    ]);
    request.body = Buffer.concat([request.body.subarray(0, at), what, request.body.subarray(at)]);
    hurt(request);
  },
  append(request, dice) {
    request.body = Buffer.concat([
      request.body,
      dice.pick([Buffer.from('x'), Buffer.from('{}'), dice.bytes(64), request.body]),
    ]);
    hurt(request);
  },
  empty(request) {
    request.body = Buffer.alloc(0);
    hurt(request);
  },
  noise(request, dice) {
    request.body = dice.bytes(dice.int(1, 300));
    hurt(request);
  },
  overLimit(request) {
    request.body = Buffer.concat([request.body, Buffer.alloc(request.bodyBytesMax, 0x20)]);
    hurt(
      request,
      request.encoding === undefined && (request.kind === 'infer' || request.kind === 'job') ? 'refused' : 'any',
    );
  },
  bomb(request) {
    request.headers = [
      ...request.headers.filter(([name]) => !/^content-encoding$/i.test(name)),
      ['Content-Encoding', 'gzip'],
    ];
    request.body = bombBytes();
    hurt(request, request.kind === 'infer' || request.kind === 'job' ? 'refused' : 'any');
  },
};
