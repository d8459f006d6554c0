import { FIELDS, FLOAT, onnxNode, onnxTensor, onnxValue } from './onnx-parts.mjs';
import { bytesField, readFields, stringField, writeFields } from './protobuf.mjs';

const FRAME_SAMPLES = 512;
const CONTEXT_SAMPLES = 64;
const SAMPLE_RATE_HZ = 16_000n;

const NODE_INPUT = 1;
const NODE_OUTPUT = 2;
const NODE_ATTRIBUTE = 5;
const ATTRIBUTE_GRAPH = 6;

/** The original's names that get another meaning outside, within the new graph. */
const RENAMED = new Map([
  ['state', 'vad_state'],
  ['stateN', 'vad_next_state'],
]);

/**
 * Silero's 16 kHz graph (`input` [batch, 64 + 512], `state` [2, batch, 128], `sr` → `output` [batch, 1], `stateN`) as
 * one that a server can batch: every tensor's first dimension is the batch, and what one step hands to the next, the
 * samples before the frame too, are tensors of their own.
 *
 *     audio [batch, 512], state [batch, 2, 128], context [batch, 64]
 *       → output [batch, 1], next_state [batch, 2, 128], next_context [batch, 64]
 *
 * The same bytes give the same bytes.
 *
 * @param {Uint8Array} bytes the original file
 */
export function batchFirstSilero(bytes) {
  const fields = readFields(bytes).map((field) =>
    field.number === FIELDS.graph ? bytesField(field.number, wrapGraph(field.value)) : field,
  );
  return writeFields(fields);
}

function wrapGraph(bytes) {
  const isReplaced = ({ number }) => number === FIELDS.input || number === FIELDS.output || number === FIELDS.node;
  const fields = readFields(bytes);
  const nodes = fields.filter(({ number }) => number === FIELDS.node).map(({ value }) => renameInNode(value));
  const before = [
    onnxNode('Concat', ['context', 'audio'], ['input'], { axis: 1 }),
    onnxNode('Transpose', ['state'], ['vad_state'], { perm: [1, 0, 2] }),
  ];
  const after = [
    onnxNode('Transpose', ['vad_next_state'], ['next_state'], { perm: [1, 0, 2] }),
    onnxNode('Slice', ['audio', 'context_from', 'context_to', 'context_axis'], ['next_context']),
  ];
  const int64 = (...values) => BigInt64Array.from(values, BigInt);
  const constants = [
    onnxTensor('sr', [], int64(SAMPLE_RATE_HZ)),
    onnxTensor('context_from', [1], int64(FRAME_SAMPLES - CONTEXT_SAMPLES)),
    onnxTensor('context_to', [1], int64(FRAME_SAMPLES)),
    onnxTensor('context_axis', [1], int64(1)),
  ];
  const values = (names) => names.map(([name, ...dims]) => onnxValue(name, FLOAT, ['batch', ...dims]));
  const inputs = values([
    ['audio', FRAME_SAMPLES],
    ['state', 2, 128],
    ['context', CONTEXT_SAMPLES],
  ]);
  const outputs = values([
    ['output', 1],
    ['next_state', 2, 128],
    ['next_context', CONTEXT_SAMPLES],
  ]);
  const parts = (number, messages) => messages.map((message) => bytesField(number, message));
  return writeFields([
    ...parts(FIELDS.node, [...before, ...nodes, ...after]),
    ...fields.filter((field) => !isReplaced(field)),
    ...parts(FIELDS.initializer, constants),
    ...parts(FIELDS.input, inputs),
    ...parts(FIELDS.output, outputs),
  ]);
}

/** A node with the names replaced, also in the graphs of its branches, which see the names around them. */
function renameInNode(bytes) {
  const fields = readFields(bytes).map((field) => {
    if (field.number === NODE_INPUT || field.number === NODE_OUTPUT) {
      const renamed = RENAMED.get(Buffer.from(field.value).toString());
      return renamed === undefined ? field : stringField(field.number, renamed);
    }
    return field.number === NODE_ATTRIBUTE ? bytesField(field.number, renameInAttribute(field.value)) : field;
  });
  return writeFields(fields);
}

function renameInAttribute(bytes) {
  const fields = readFields(bytes).map((field) => {
    if (field.number !== ATTRIBUTE_GRAPH) return field;
    const graph = readFields(field.value).map((part) =>
      part.number === FIELDS.node ? bytesField(part.number, renameInNode(part.value)) : part,
    );
    return bytesField(field.number, writeFields(graph));
  });
  return writeFields(fields);
}
