/** The code of a standalone test case, in JavaScript for Node 20 and its own modules. */

/** What stands in front, with what it imports of Node's crypto. The recording's constants, the code and the steps follow. */
export function testCaseImports(crypto: readonly string[]): string {
  return `import assert from 'node:assert/strict';
import { ${crypto.join(', ')} } from 'node:crypto';
import { env } from 'node:process';
import { test } from 'node:test';
import { inspect } from 'node:util';

const SERVER = env.NEREID_URL ?? 'http://127.0.0.1:8000';
`;
}

export const TEST_CASE_CODE = `/** Floating point values may differ by ATOL + RTOL * |recorded|. With both 0 all is compared bit for bit. */
const ATOL = 0;
const RTOL = 0;

test(\`\${MODEL} answers as recorded\`, async () => {
  for (const step of steps()) check(step, await infer(step));
});

/** Sends the request of a step in the binary form of the v2 protocol; gives the outputs, or the text of an error. */
async function infer({ id, start, end, parameters = '{}', inputs, wanted }) {
  const data = inputs.map(({ base64 }) => Buffer.from(base64, 'base64'));
  const own = { sequence_id: SEQUENCE_ID, sequence_start: start, sequence_end: end, binary_data_output: true };
  const request = {
    id,
    inputs: inputs.map(({ name, datatype, shape }, index) => ({
      ...{ name, datatype, shape },
      parameters: { binary_data_size: data[index].byteLength },
    })),
    outputs: wanted?.map((name) => ({ name, parameters: { binary_data: true } })),
  };
  // The parameters are JSON already: JavaScript would write 1.0 as 1.
  const head = Buffer.from(merged(JSON.stringify(request), \`{"parameters":\${merged(JSON.stringify(own), parameters)}}\`));
  const version = VERSION === '' ? '' : \`/versions/\${VERSION}\`;
  const response = await fetch(\`\${SERVER}/v2/models/\${encodeURIComponent(MODEL)}\${version}/infer\`, {
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream', 'inference-header-content-length': \`\${head.byteLength}\` },
    body: Buffer.concat([head, ...data]),
  });
  const body = Buffer.from(await response.arrayBuffer());
  if (!response.ok) return { error: errorText(body.toString()) };
  let at = Number(response.headers.get('inference-header-content-length') ?? body.byteLength);
  const { outputs = [] } = JSON.parse(body.toString('utf8', 0, at));
  return {
    outputs: outputs.map(({ name, datatype, shape, parameters }) => {
      const from = at;
      at += parameters.binary_data_size;
      return { name, datatype, shape, data: body.subarray(from, at) };
    }),
  };
}

/** Two JSON objects as one. */
function merged(one, other) {
  return other === '{}' ? one : \`\${one.slice(0, -1)},\${other.slice(1)}\`;
}

function errorText(body) {
  try {
    return \`\${JSON.parse(body).error}\`;
  } catch {
    return body;
  }
}

/** Compares what a step gave with what was recorded. */
function check({ step, error, outputs }, answer) {
  if (error !== undefined) {
    const told = answer.error === undefined ? 'outputs' : inspect(answer.error);
    assert.ok(answer.error?.includes(error), \`step \${step}: recorded the error \${inspect(error)}, replayed \${told}\`);
    return;
  }
  assert.equal(answer.error, undefined, \`step \${step}: recorded outputs, replayed the error \${inspect(answer.error)}\`);
  const names = (tensors) => tensors.map(({ name }) => name).sort();
  assert.deepEqual(names(answer.outputs), names(outputs), \`step \${step}: recorded the outputs \${names(outputs)}, replayed \${names(answer.outputs)}\`);
  for (const output of outputs) {
    const replayed = answer.outputs.find(({ name }) => name === output.name);
    if (!output.redacted) checkOutput(\`step \${step}, output \${output.name}\`, output, replayed);
  }
}

function checkOutput(place, { datatype, shape, base64, sha256 }, replayed) {
  const described = [\`\${datatype}[\${shape}]\`, \`\${replayed.datatype}[\${replayed.shape}]\`];
  assert.equal(described[1], described[0], \`\${place}: recorded \${described[0]}, replayed \${described[1]}\`);
  if (sha256 !== undefined) {
    const replayedSha256 = createHash('sha256').update(replayed.data).digest('hex');
    assert.equal(replayedSha256, sha256, \`\${place}: recorded data of SHA-256 \${sha256}, replayed \${replayedSha256}\`);
    return;
  }
  const data = Buffer.from(base64, 'base64');
  if (data.equals(replayed.data)) return;
  const [was, is] = [elements(datatype, data), elements(datatype, replayed.data)];
  for (let index = 0; index < Math.max(was.length, is.length); index++) {
    if (same(datatype, was[index], is[index])) continue;
    const [a, b] = [was, is].map((all) => (index < all.length ? inspect(DATATYPES[datatype][1](all[index])) : 'nothing'));
    assert.fail(\`\${place}, index [\${indexOf(index, shape)}]: recorded \${a}, replayed \${b}\`);
  }
}

/** The bytes of each element. */
function elements(datatype, data) {
  const found = [];
  for (let at = 0; at < data.byteLength; ) {
    const start = datatype === 'BYTES' ? at + 4 : at;
    at = start + (datatype === 'BYTES' ? data.readUInt32LE(at) : DATATYPES[datatype][0]);
    found.push(data.subarray(start, at));
  }
  return found;
}

function same(datatype, was, is) {
  if (was === undefined || is === undefined) return false;
  if (was.equals(is)) return true;
  if (!/^(FP|BF)/.test(datatype) || (ATOL === 0 && RTOL === 0)) return false;
  const [a, b] = [was, is].map(DATATYPES[datatype][1]);
  if (!Number.isFinite(a) || !Number.isFinite(b)) return Object.is(a, b);
  return Math.abs(a - b) <= ATOL + RTOL * Math.abs(a);
}

function indexOf(position, shape) {
  const index = [];
  let rest = position;
  for (const dimension of shape.toReversed()) {
    index.unshift(rest % dimension);
    rest = Math.floor(rest / dimension);
  }
  return index;
}

/** Bytes of an element, and its value. */
const DATATYPES = {
  BOOL: [1, (bytes) => bytes[0] !== 0],
  UINT8: [1, (bytes) => bytes.readUInt8()],
  UINT16: [2, (bytes) => bytes.readUInt16LE()],
  UINT32: [4, (bytes) => bytes.readUInt32LE()],
  UINT64: [8, (bytes) => bytes.readBigUInt64LE()],
  INT8: [1, (bytes) => bytes.readInt8()],
  INT16: [2, (bytes) => bytes.readInt16LE()],
  INT32: [4, (bytes) => bytes.readInt32LE()],
  INT64: [8, (bytes) => bytes.readBigInt64LE()],
  FP16: [2, (bytes) => half(bytes.readUInt16LE())],
  BF16: [2, (bytes) => Buffer.concat([Buffer.alloc(2), bytes]).readFloatLE()],
  FP32: [4, (bytes) => bytes.readFloatLE()],
  FP64: [8, (bytes) => bytes.readDoubleLE()],
  BYTES: [0, (bytes) => bytes.toString()],
};

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : 2 ** (exponent - 15) * (1 + fraction / 1024));
}
`;
