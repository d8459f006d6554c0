import { deflateSync, gzipSync } from 'node:zlib';
import { hurt } from './mutation.mjs';
import {
  BYTES,
  bytes,
  FIXED32,
  FIXED64,
  levels,
  packed,
  sub,
  text,
  VARINT,
  varint,
  writeMessage,
} from './protobuf.mjs';

/** Mutations of calls: of their fields, of the bytes of their messages, and of the frames and metadata around them. */

const UNKNOWN_FIELD = 1_000;
/** Of a field that is repeated thousands of times. */
const REPEATED_BYTES_MAX = 200;
const HUGE = [-1n, 0n, 2n ** 31n, 2n ** 32n, 2n ** 62n, 2n ** 63n - 1n, -(2n ** 63n)];
const TEXTS = [
  Buffer.alloc(0),
  Buffer.from([0xff, 0xfe]),
  Buffer.from('a\0b'),
  Buffer.from('z'.repeat(5_000)),
  Buffer.from('FP32'),
  Buffer.from('é'),
];
const INPUTS = 5;

const anyLevel = (call, dice, test = () => true) => {
  const found = call.messages.flatMap((fields) => levels(fields)).filter(test);
  return found.length === 0 ? undefined : dice.pick(found);
};
/** Some of its fields have a number. */
const filled = (fields) => fields.some(({ number }) => number !== undefined);
const isInfer = ({ kind }) => kind === 'infer' || kind === 'stream';

function anyInput(call, dice) {
  const inputs = call.messages.flat().filter(({ number, value }) => number === INPUTS && value?.fields !== undefined);
  return inputs.length === 0 ? undefined : dice.pick(inputs).value.fields;
}

const onInput = (change) => (call, dice) => {
  const input = isInfer(call) ? anyInput(call, dice) : undefined;
  if (input === undefined) return;
  change(input, dice);
  hurt(call);
};

export const BREAKING_FIELDS = {
  removeField(call, dice) {
    const fields = anyLevel(call, dice, filled);
    if (fields === undefined) return;
    fields.splice(dice.int(0, fields.length - 1), 1);
    hurt(call);
  },
  repeatField(call, dice) {
    const fields = anyLevel(call, dice, filled);
    if (fields === undefined) return;
    const twice = dice.pick(fields);
    // Once: thousands of what has thousands in it would be hundreds of megabytes.
    const isSmall = call.hasMany !== true && writeMessage([twice]).length < REPEATED_BYTES_MAX;
    const many = isSmall ? 5_000 : 2;
    call.hasMany = true;
    fields.push(...Array(dice.pick([1, 2, many])).fill(twice));
    hurt(call);
  },
  renumber(call, dice) {
    const fields = anyLevel(call, dice, filled);
    if (fields === undefined) return;
    const at = dice.int(0, fields.length - 1);
    fields[at] = { ...fields[at], number: dice.pick([0, 1, 2, 3, 4, 5, 6, 7, 8, 536_870_911]) };
    hurt(call);
  },
  rewire(call, dice) {
    const fields = anyLevel(call, dice, filled);
    if (fields === undefined) return;
    const { number } = dice.pick(fields.filter((field) => field.number !== undefined));
    const wire = dice.pick([VARINT, FIXED64, BYTES, 3, 4, FIXED32, 6, 7]);
    fields.push(
      wire === BYTES ? bytes(number, dice.pick(TEXTS)) : { number, wire: wire > FIXED32 ? VARINT : wire, value: 7n },
    );
    if (wire > FIXED32 || wire === 3 || wire === 4) fields.push({ raw: Buffer.from([(number << 3) | wire]) });
    hurt(call);
  },
  number(call, dice) {
    const fields = anyLevel(call, dice, (level) => level.some(({ wire }) => wire === VARINT));
    if (fields === undefined) return;
    const field = dice.pick(fields.filter(({ wire }) => wire === VARINT));
    field.value = dice.pick(HUGE);
    hurt(call);
  },
  text(call, dice) {
    const fields = anyLevel(call, dice, (level) => level.some(({ value }) => Buffer.isBuffer(value)));
    if (fields === undefined) return;
    dice.pick(fields.filter(({ value }) => Buffer.isBuffer(value))).value = dice.pick(TEXTS);
    hurt(call);
  },
  raw(call, dice) {
    const fields = anyLevel(call, dice);
    fields.push({
      raw: dice.pick([
        Buffer.alloc(12, 0xff),
        Buffer.from([0x0a, 0xff, 0xff, 0xff, 0x7f]),
        Buffer.from([0]),
        Buffer.from([0x0b]),
        dice.bytes(9),
      ]),
    });
    hurt(call);
  },
  parameter(call, dice) {
    if (!isInfer(call)) return;
    const name = dice.pick([
      'sequence_id',
      'sequence_start',
      'priority',
      'timeout',
      'triton_x',
      'x',
      '',
      'binary_data_output',
      'nereid_step',
    ]);
    const value = dice.pick([
      [],
      [varint(1, 2)],
      [varint(2, dice.pick(HUGE))],
      [text(3, 'soon')],
      [varint(5, dice.pick(HUGE))],
      [varint(1, 1), text(3, 'b')],
      [text(9, 'z')],
    ]);
    dice.pick(call.messages).push(sub(4, [text(1, name), sub(2, value)]));
    hurt(call);
  },
  output(call, dice) {
    if (!isInfer(call)) return;
    const parameter = (name, value) => sub(2, [text(1, name), sub(2, [value])]);
    const more = dice.pick([
      [],
      [parameter('classification', varint(2, dice.pick(HUGE)))],
      [parameter('classification', text(3, 'a'))],
      [parameter('shared_memory_region', text(3, 'none'))],
      [parameter('shared_memory_offset', varint(2, 4))],
    ]);
    dice.pick(call.messages).push(sub(6, [text(1, dice.pick(['OUTPUT', 'OUTPUT0', 'MISSING', ''])), ...more]));
    hurt(call);
  },
  shape: onInput(
    (input, dice) =>
      void input.push(
        packed(
          3,
          VARINT,
          dice.list(dice.pick([1, 2, 3, 2_000]), () => dice.pick(HUGE)),
        ),
      ),
  ),
  contents: onInput((input, dice) => {
    const kinds = [
      packed(1, VARINT, [1n]),
      packed(2, VARINT, [1n, -1n]),
      packed(4, VARINT, [2n ** 40n]),
      packed(6, FIXED32, [0n]),
      packed(7, FIXED64, [0n]),
      bytes(8, Buffer.from('a')),
      { ...packed(6, VARINT, [1n, 2n, 3n]) },
    ];
    input.push(sub(5, dice.chance(0.5) ? [dice.pick(kinds)] : [dice.pick(kinds), dice.pick(kinds)]));
  }),
  rawContents(call, dice) {
    if (!isInfer(call)) return;
    dice
      .pick(call.messages)
      .push(
        bytes(
          7,
          dice.pick([Buffer.alloc(0), Buffer.alloc(3), Buffer.alloc(100_000), Buffer.from([255, 255, 255, 255])]),
        ),
      );
    hurt(call);
  },
  sharedMemory: onInput((input, dice) => {
    const parameter = (name, value) => sub(4, [text(1, name), sub(2, [value])]);
    input.push(parameter('shared_memory_region', dice.pick([text(3, 'none'), varint(2, 1)])));
    if (dice.chance(0.7)) input.push(parameter('shared_memory_byte_size', varint(2, dice.pick(HUGE))));
  }),
};

/** Any order of fields of different numbers; those of one number keep theirs. */
function interleaved(fields, dice) {
  const queues = new Map();
  for (const field of fields) queues.set(field.number, [...(queues.get(field.number) ?? []), field]);
  const turns = dice.shuffle(fields.map(({ number }) => number));
  return turns.map((number) => queues.get(number).shift());
}

const isPlain = (fields) => fields.every(({ raw }) => raw === undefined);
/** Messages of which each field is known: maps' entries and oneofs count the last that is set. */
const FIELDS = { model_name: 1 };

export const KEEPING_FIELDS = {
  order(call, dice) {
    for (const fields of call.messages.flatMap((message) => levels(message))) {
      if (isPlain(fields)) fields.splice(0, fields.length, ...interleaved(fields, dice));
    }
  },
  unknownFields(call, dice) {
    const fields = anyLevel(call, dice, isPlain);
    const number = UNKNOWN_FIELD + dice.int(0, 9);
    fields?.splice(
      dice.int(0, fields.length),
      0,
      dice.pick([
        varint(number, 5),
        text(number, 'unknown'),
        { number, wire: FIXED32, value: 1n },
        { number, wire: FIXED64, value: 1n },
      ]),
    );
  },
  unpacked(call, dice) {
    for (const fields of call.messages.flatMap((message) => levels(message))) {
      for (const field of fields.filter(({ value }) => value?.packed !== undefined)) {
        if (!dice.chance(0.7)) continue;
        const { number, value } = field;
        const half = dice.int(0, value.packed.length);
        const single = value.packed.slice(half).map((one) => ({ number, ...one }));
        const first = half === 0 ? [] : [{ number, wire: BYTES, value: { packed: value.packed.slice(0, half) } }];
        fields.splice(fields.indexOf(field), 1, ...first, ...single);
      }
    }
  },
  longVarints(call, dice) {
    for (const fields of call.messages.flatMap((message) => levels(message))) {
      for (const field of fields) {
        // A full 64 bits take all ten bytes already.
        const room = field.wire !== VARINT || (field.value >= 0n && field.value < 2n ** 48n);
        if (field.number !== undefined && room && dice.chance(0.3)) field.padding = dice.int(1, 3);
      }
    }
  },
  lastCounts(call) {
    if (!isInfer(call)) return;
    for (const message of call.messages) message.unshift(text(FIELDS.model_name, 'another'));
  },
  splitContents(call, dice) {
    const input = isInfer(call) ? anyInput(call, dice) : undefined;
    const contents = input?.find(({ number, value }) => number === 5 && value?.fields !== undefined);
    if (contents === undefined) return;
    const half = dice.int(0, contents.value.fields.length);
    input.splice(
      input.indexOf(contents),
      1,
      sub(5, contents.value.fields.slice(0, half)),
      sub(5, contents.value.fields.slice(half)),
    );
  },
};

/** Each message as a frame: `{ flag, body, announced }`. */
export function writeFrames(call) {
  call.frames = call.messages.map((fields) => ({ flag: 0, body: writeMessage(fields) }));
}

/** Other bytes in a message: compressed, it may be none any more. */
function spoil(call) {
  if (call.headers['grpc-encoding'] !== undefined) call.misframed = true;
  hurt(call);
}

export const BREAKING_FRAMES = {
  truncate(call, dice) {
    const frame = dice.pick(call.frames);
    frame.body = frame.body.subarray(0, dice.int(0, Math.max(0, frame.body.length - 1)));
    spoil(call);
  },
  flipBits(call, dice) {
    const frame = dice.pick(call.frames);
    if (frame.body.length === 0) return;
    frame.body = Buffer.from(frame.body);
    for (let count = dice.pick([1, 1, 3, 20]); count > 0; count -= 1)
      frame.body[dice.int(0, frame.body.length - 1)] ^= 1 << dice.int(0, 7);
    spoil(call);
  },
  noise(call, dice) {
    dice.pick(call.frames).body = dice.bytes(dice.int(1, 200));
    spoil(call);
  },
  flag(call, dice) {
    call.misframed = true;
    dice.pick(call.frames).flag = dice.pick([1, 2, 0x80, 255]);
    hurt(call);
  },
  announced(call, dice) {
    call.misframed = true;
    const frame = dice.pick(call.frames);
    frame.announced = dice.pick([0, Math.max(0, frame.body.length - 1), frame.body.length + 1, 0x7fffffff, 0xffffffff]);
    call.hangs = true;
    hurt(call);
  },
  more(call, dice) {
    call.frames.push(...Array(dice.pick([1, 3])).fill(dice.pick(call.frames)));
    hurt(call);
  },
  none(call) {
    call.frames = [];
    hurt(call);
  },
  path(call, dice) {
    call.path = dice.pick([
      `${call.path}X`,
      call.path.slice(1),
      call.path.replace('.', '/'),
      '/',
      `${call.path}?x=1`,
      call.path.toLowerCase(),
    ]);
    hurt(call);
  },
  contentType(call, dice) {
    call.headers['content-type'] = dice.pick([
      'application/json',
      'application/grpc-web',
      'text/plain',
      'application/grpc+json',
    ]);
    hurt(call);
  },
  method(call, dice) {
    call.headers[':method'] = dice.pick(['GET', 'PUT', 'OPTIONS']);
    hurt(call);
  },
  encoding(call, dice) {
    call.misframed = true;
    call.headers['grpc-encoding'] = dice.pick(['br', 'snappy', 'gzip', '', 'identity']);
    if (dice.chance(0.5)) for (const frame of call.frames) frame.flag = 1;
    hurt(call);
  },
  timeout(call, dice) {
    call.misframed = true;
    call.headers['grpc-timeout'] = dice.pick(['1n', '1u', '1m', 'soon', '-5S', '99999999999H', '0S', '']);
    hurt(call);
  },
  metadata(call, dice) {
    const [name, value] = dice.pick([
      ['x-long', 'v'.repeat(dice.pick([3_000, 20_000]))],
      ['x-bytes-bin', '%%%'],
      ['x-latin', 'ünï'],
      ['triton_grpc_error', 'true'],
      ['triton-grpc-protocol-x', '1'],
      ['te', 'gzip'],
      ['grpc-accept-encoding', 'nothing'],
    ]);
    call.headers[name] = value;
    hurt(call);
  },
};

export const KEEPING_FRAMES = {
  compress(call, dice) {
    if (call.headers['grpc-encoding'] !== undefined) return;
    const encoding = dice.pick(['gzip', 'deflate']);
    call.headers['grpc-encoding'] = encoding;
    for (const frame of call.frames) {
      if (!dice.chance(0.8)) continue;
      frame.flag = 1;
      frame.body = encoding === 'gzip' ? gzipSync(frame.body) : deflateSync(frame.body);
    }
  },
  accepts(call, dice) {
    call.headers['grpc-accept-encoding'] = dice.pick(['identity,gzip,deflate', 'gzip', 'identity']);
  },
  moreMetadata(call, dice) {
    call.headers[dice.pick(['x-request-id', 'user-agent', 'x-bytes-bin'])] = dice.pick(['YQ', 'AAAA']);
  },
  longTimeout(call, dice) {
    call.headers['grpc-timeout'] = dice.pick(['60S', '1H', '90000m', '99999999u']);
  },
  pieces(call) {
    call.pieces = true;
  },
  slow(call) {
    call.pieces = true;
    call.slow = true;
  },
};

/** Ends a call before its answer, in its own ways. */
export const BREAKING_CALL = {
  cancel(call) {
    call.leaves = 'reset';
    hurt(call);
  },
  cut(call) {
    call.leaves = 'cut';
    hurt(call);
  },
  open(call) {
    call.hangs = true;
    call.leaves = 'open';
    hurt(call);
  },
  connection(call, dice) {
    call.noise = dice.pick([
      dice.bytes(dice.int(1, 300)),
      Buffer.from('GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\xff\x09\x09\0\0\0\0', 'latin1'),
      Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), dice.bytes(100)]),
    ]);
    hurt(call);
  },
};
