import { encodeBody } from './http-infer.mjs';
import { writeJson } from './json-tree.mjs';
import { hurt } from './mutation.mjs';

/** From a request to the bytes that go over a connection, and the ways in which they may go. */

const HANG_MS = 60;
const SETTLE_MS = 150;
const PAUSE_MS_MAX = 20;
const PIECES_MAX = 6;

/** Writes the request's body, with the header lines that go with it. */
export function writeBody(request, dice) {
  const { tree, tail, raw, encoding, style } = request;
  const json = tree === undefined ? Buffer.alloc(0) : writeJson(tree, style, dice);
  request.body = raw ?? (tail === undefined ? json : Buffer.concat([json, tail]));
  if (tail !== undefined) request.headers.push(['Inference-Header-Content-Length', String(json.length)]);
  if (encoding !== undefined) {
    request.headers.push(['Content-Encoding', encoding]);
    request.body = encodeBody(encoding, request.body);
  }
}

function head(request, more = [], { version = '1.1', lineEnd = '\r\n', host = true } = {}) {
  const name = (text) => (request.upperCase ? text.toUpperCase() : text);
  const lines = [
    `${request.method} ${request.path} HTTP/${version}`,
    ...(host ? [`${name('Host')}: 127.0.0.1`] : []),
    ...[...request.headers, ...more].map(([key, value]) => `${name(key)}: ${value}`),
  ];
  return Buffer.from(`${lines.join(lineEnd)}${lineEnd}${lineEnd}`, 'latin1');
}

const lengthOf = ({ body, method }) =>
  body.length === 0 && method === 'GET' ? [] : [['Content-Length', String(body.length)]];
const whole = (request, more = [], form = {}) =>
  Buffer.concat([head(request, [...lengthOf(request), ...more], form), request.body]);

/** Bytes in pieces; between them there may be pauses. */
function split(bytes, dice, pauses = false) {
  const cuts = dice.list(dice.int(1, PIECES_MAX), () => dice.int(0, bytes.length)).sort((a, b) => a - b);
  const pieces = [0, ...cuts].map((from, index) => bytes.subarray(from, cuts[index] ?? bytes.length));
  return pauses ? pieces.flatMap((piece) => [{ pauseMs: dice.int(1, PAUSE_MS_MAX) }, piece]) : pieces;
}

function chunks(body, dice, extension = '') {
  const parts = [];
  for (let at = 0; at < body.length; ) {
    const size = Math.min(body.length - at, dice.pick([1, 7, 100, 5_000, 100_000]));
    parts.push(Buffer.from(`${size.toString(16)}${extension}\r\n`), body.subarray(at, at + size), Buffer.from('\r\n'));
    at += size;
    // Not thousands of pieces of one byte.
    if (parts.length > 600) {
      parts.push(Buffer.from(`${(body.length - at).toString(16)}\r\n`), body.subarray(at), Buffer.from('\r\n'));
      if (at === body.length) parts.splice(-3);
      break;
    }
  }
  return Buffer.concat(parts);
}

const CHUNKED = [['Transfer-Encoding', 'chunked']];
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

const usual = (request, pieces, more = {}) => ({
  pieces,
  answers: 1,
  method: request.method,
  fresh: request.fresh === true,
  ...more,
});
/** Some or no answers: the connection is left after a while. */
const unsure = (request, pieces, more = {}) => {
  hurt(request, 'any');
  return usual(request, pieces, {
    fresh: true,
    answers: Number.POSITIVE_INFINITY,
    hangs: SETTLE_MS,
    unsure: true,
    ...more,
  });
};

export const KEEPING_DELIVERY = {
  plain: (request) => usual(request, [whole(request)]),
  split: (request, dice) => usual(request, split(whole(request), dice)),
  slow: (request, dice) => usual(request, split(whole(request), dice, true)),
  chunked: (request, dice) =>
    usual(request, [Buffer.concat([head(request, CHUNKED), chunks(request.body, dice), LAST_CHUNK])]),
  chunkExtension: (request, dice) =>
    usual(request, [Buffer.concat([head(request, CHUNKED), chunks(request.body, dice, ';name=value'), LAST_CHUNK])]),
  trailer: (request, dice) =>
    usual(request, [
      Buffer.concat([head(request, CHUNKED), chunks(request.body, dice), Buffer.from('0\r\nX-Trailer: v\r\n\r\n')]),
    ]),
  pipelined(request) {
    // A client that expects 100 waits for it; one that sends on at once gets it amid the answer before.
    request.headers = request.headers.filter(([name]) => !/^expect$/i.test(name));
    return usual(request, [Buffer.concat([whole(request), whole(request)])], { answers: 2 });
  },
  closed: (request) => usual(request, [whole(request, [['Connection', 'close']])], { fresh: true }),
  http10: (request) => usual(request, [whole(request, [], { version: '1.0' })], { fresh: true }),
};

const SIZES = ['zz', '-1', 'ffffffffffffffff', '', '10000000000000000000', '5;', 'g'];
const BAD_LENGTHS = ['-1', 'abc', '1e3', '+5', '99999999999999999999', '5, 5', '0x10', ''];
const NOISES = [
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
  Buffer.from('\r\n\r\n\r\n'),
  Buffer.from('GET'),
  Buffer.alloc(100),
];

export const BREAKING_DELIVERY = {
  cut(request, dice) {
    const bytes = whole(request);
    return unsure(request, split(bytes.subarray(0, dice.int(0, bytes.length - 1)), dice), { leave: true });
  },
  leave: (request) => unsure(request, [whole(request)], { leave: true }),
  halfClose: (request) => unsure(request, [whole(request)], { end: true }),
  shortLength: (request, dice) =>
    unsure(request, [
      head(request, [['Content-Length', String(dice.int(0, Math.max(0, request.body.length - 1)))]]),
      request.body,
    ]),
  longLength: (request, dice) =>
    unsure(
      request,
      [
        head(request, [['Content-Length', String(request.body.length + dice.pick([1, 100, 10_000_000_000]))]]),
        request.body,
      ],
      { hangs: HANG_MS },
    ),
  badLength: (request, dice) =>
    unsure(request, [head(request, [['Content-Length', dice.pick(BAD_LENGTHS)]]), request.body]),
  bothLengths: (request, dice) =>
    unsure(request, [head(request, [...lengthOf(request), ...CHUNKED]), chunks(request.body, dice), LAST_CHUNK]),
  badChunk: (request, dice) =>
    unsure(request, [
      head(request, CHUNKED),
      chunks(request.body, dice),
      Buffer.from(`${dice.pick(SIZES)}\r\nxxxxx\r\n`),
      LAST_CHUNK,
    ]),
  openChunks: (request, dice) =>
    unsure(request, [head(request, CHUNKED), chunks(request.body, dice)], { hangs: HANG_MS }),
  noise: (request, dice) => unsure(request, [dice.chance(0.3) ? dice.bytes(dice.int(1, 400)) : dice.pick(NOISES)]),
  version: (request, dice) =>
    unsure(request, [whole(request, [], { version: dice.pick(['3.7', '0.9', '1.', 'x', '2.0']) })]),
  lineEnds: (request) => unsure(request, [whole(request, [], { lineEnd: '\n' })]),
  noHost: (request) => unsure(request, [whole(request, [], { host: false })]),
};
