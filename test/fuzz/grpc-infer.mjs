import { drawInfer, expectedOutputs } from './draw-infer.mjs';
import { FAILING, MODELS, WORDS } from './models.mjs';
import {
  bool,
  bytes,
  double,
  FIXED32,
  FIXED64,
  int64sOf,
  packed,
  readMessage,
  sub,
  text,
  textOf,
  VARINT,
  varint,
} from './protobuf.mjs';
import { decodeElements, elementsDiffer, encodeElements, isHalf, randomElement } from './tensors.mjs';

/**
 * Valid infer requests over gRPC. A request: `{ kind, path, messages, expect, check }`, where `messages` are lists of
 * fields and `check` takes the answers' messages. Field numbers are those of grpc_service.proto.
 */

export const SERVICE = '/inference.GRPCInferenceService/';
const STREAMED_MAX = 4;
const WORDS_MAX = 4;

/** Where a datatype's elements stand in InferTensorContents, and how. */
const CONTENTS = {
  BOOL: [1, VARINT],
  INT8: [2, VARINT],
  INT16: [2, VARINT],
  INT32: [2, VARINT],
  INT64: [3, VARINT],
  UINT8: [4, VARINT],
  UINT16: [4, VARINT],
  UINT32: [4, VARINT],
  UINT64: [5, VARINT],
  FP32: [6, FIXED32],
  FP64: [7, FIXED64],
  BYTES: [8, undefined],
};

export function inferCall(dice) {
  const ask = drawInfer(dice, dice.pick(MODELS));
  const expected = expectedOutputs(ask);
  return {
    kind: 'infer',
    path: `${SERVICE}ModelInfer`,
    messages: [inferFields(dice, ask)],
    expect: 'valid',
    check: ([answer]) => checkResponse(readMessage(answer), ask, expected),
  };
}

/** `{ name, version, id, inputs, outputs, parameters }` as the fields of a ModelInferRequest. */
function inferFields(dice, { model, version, id, inputs, outputs, parameters }) {
  const entries = Object.entries(inputs);
  // All raw, or all typed.
  const typed = entries.every(([, { datatype }]) => !isHalf(datatype)) && dice.chance(0.4);
  const fields = [text(1, model.name)];
  if (version !== '' || dice.chance(0.1)) fields.push(text(2, version));
  if (id !== '') fields.push(text(3, id));
  for (const [name, value] of parameterFields(parameters)) fields.push(sub(4, [text(1, name), sub(2, [value])]));
  for (const [name, { datatype, shape, elements }] of entries) {
    const input = [text(1, name), text(2, datatype), packed(3, VARINT, shape.map(BigInt))];
    if (typed) input.push(sub(5, contentsFields(datatype, elements)));
    fields.push(sub(5, input));
  }
  for (const { name, classes } of outputs) {
    const more = classes === 0 ? [] : [sub(2, [text(1, 'classification'), sub(2, [varint(2, classes)])])];
    fields.push(sub(6, [text(1, name), ...more]));
  }
  if (!typed)
    for (const [, { datatype, elements }] of entries) fields.push(bytes(7, encodeElements(datatype, elements)));
  return fields;
}

function contentsFields(datatype, elements) {
  const [number, wire] = CONTENTS[datatype];
  if (datatype === 'BYTES') return elements.map((element) => bytes(number, element));
  if (elements.length === 0) return [];
  const values = elements.map((element) => {
    if (wire === VARINT) return BigInt(element);
    const raw = encodeElements(datatype, [element]);
    return wire === FIXED32 ? BigInt(raw.readUInt32LE()) : raw.readBigUInt64LE();
  });
  return [packed(number, wire, values)];
}

function parameterFields({ custom, own }) {
  return [
    ...Object.entries(custom).map(([name, value]) => {
      if (typeof value === 'string') return [name, text(3, value)];
      if (typeof value === 'boolean') return [name, bool(1, value)];
      return [name, typeof value === 'bigint' ? varint(2, value) : double(4, value)];
    }),
    ...Object.entries(own).map(([name, value]) => [name, varint(2, value)]),
  ];
}

function checkResponse(fields, { model, id }, expected) {
  if (textOf(fields, 1) !== model.name) return `model_name is ${textOf(fields, 1)}`;
  if (textOf(fields, 2) !== '1') return `model_version is ${textOf(fields, 2)}`;
  if (textOf(fields, 3) !== id) return `id is ${textOf(fields, 3)}`;
  const outputs = (fields.get(5) ?? []).map(readMessage);
  const raw = fields.get(6) ?? [];
  const names = outputs.map((output) => textOf(output, 1));
  const wanted = Object.keys(expected);
  if ([...names].sort().join() !== [...wanted].sort().join()) return `outputs are ${names}, not ${wanted}`;
  if (raw.length !== outputs.length) return `${raw.length} raw contents for ${outputs.length} outputs`;
  for (const [index, output] of outputs.entries()) {
    const { datatype, shape, elements } = expected[textOf(output, 1)];
    const place = `output ${textOf(output, 1)}`;
    if (textOf(output, 2) !== datatype) return `${place} is ${textOf(output, 2)}, not ${datatype}`;
    if (int64sOf(output, 3).join() !== shape.join())
      return `${place} has shape [${int64sOf(output, 3)}], not [${shape}]`;
    const differ = elementsDiffer(datatype, elements, decodeElements(datatype, raw[index]));
    if (differ !== undefined) return `${place}: ${differ}`;
  }
  return undefined;
}

/** Several requests on a stream: to models that answer once, whose answers come in order, or to the decoupled one. */
export function streamCall(dice) {
  return dice.chance(0.3) ? wordsCall(dice) : orderedCall(dice);
}

function orderedCall(dice) {
  const asks = dice.list(dice.int(1, STREAMED_MAX), () => drawInfer(dice, dice.pick(MODELS)));
  const expected = asks.map(expectedOutputs);
  return {
    kind: 'stream',
    path: `${SERVICE}ModelStreamInfer`,
    messages: asks.map((ask) => inferFields(dice, ask)),
    expect: 'valid',
    check(answers) {
      if (answers.length !== asks.length) return `${answers.length} answers, not ${asks.length}`;
      for (const [index, answer] of answers.entries()) {
        const fields = readMessage(answer);
        if (textOf(fields, 1) !== '') return `answer ${index} is an error: ${textOf(fields, 1)}`;
        const wrong = checkResponse(readMessage(fields.get(2)?.[0] ?? Buffer.alloc(0)), asks[index], expected[index]);
        if (wrong !== undefined) return `answer ${index}: ${wrong}`;
      }
      return undefined;
    },
  };
}

function wordsCall(dice) {
  const word = randomElement(dice, 'BYTES');
  const count = dice.int(0, WORDS_MAX);
  const wantsFinal = dice.chance(0.5);
  const fields = [
    text(1, WORDS.name),
    text(3, 'w-1'),
    ...(wantsFinal ? [sub(4, [text(1, 'triton_enable_empty_final_response'), sub(2, [bool(1, true)])])] : []),
    sub(5, [text(1, 'TEXT'), text(2, 'BYTES'), packed(3, VARINT, [1n])]),
    sub(5, [text(1, 'COUNT'), text(2, 'INT32'), packed(3, VARINT, [1n])]),
    bytes(7, encodeElements('BYTES', [word])),
    bytes(7, encodeElements('INT32', [count])),
  ];
  return {
    kind: 'stream',
    path: `${SERVICE}ModelStreamInfer`,
    messages: [fields],
    expect: 'valid',
    check(answers) {
      const responses = answers.map((answer) => readMessage(readMessage(answer).get(2)?.[0] ?? Buffer.alloc(0)));
      const filled = responses.filter((response) => response.has(5));
      if (filled.length !== count) return `${filled.length} answers, not ${count}`;
      if (wantsFinal && responses.length === 0) return 'no final answer';
      for (const [index, response] of filled.entries()) {
        const names = response.get(5).map((output) => textOf(readMessage(output), 1));
        const raw = (name) => response.get(6)[names.indexOf(name)];
        if (!raw('WORD').equals(encodeElements('BYTES', [word]))) return `answer ${index} has another word`;
        if (!raw('INDEX').equals(encodeElements('INT32', [index]))) return `answer ${index} has another number`;
      }
      return undefined;
    },
  };
}

/** A call that the model fails. */
export function failingCall() {
  const input = sub(5, [text(1, 'INPUT'), text(2, 'INT32'), packed(3, VARINT, [2n])]);
  return [text(1, FAILING.name), input, bytes(7, encodeElements('INT32', [1, 2]))];
}
