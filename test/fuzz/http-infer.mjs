import { deflateSync, gzipSync } from 'node:zlib';
import { drawInfer, expectedOutputs } from './draw-infer.mjs';
import { asRead, readJson, treeOf } from './json-tree.mjs';
import { MODELS } from './models.mjs';
import {
  decodeElements,
  elementNode,
  elementsDiffer,
  elementsFromJson,
  encodeElements,
  hasJson,
  isHalf,
} from './tensors.mjs';

/**
 * Valid infer requests over HTTP in all their forms. A request: `{ kind, method, path, headers, tree, tail, raw, encoding,
 * expect, check }`. `tree` is its JSON, `tail` the bytes behind it; `raw` is the whole body where it is one tensor.
 */

/** A request in JSON, with binary inputs or mixed, for one of the models. */
export function inferRequest(dice) {
  const ask = drawInfer(dice, dice.pick(MODELS));
  return dice.chance(0.06) ? (rawInfer(dice) ?? writeInfer(dice, ask)) : writeInfer(dice, ask);
}

/** The path of a model's route. */
export function modelPath({ model, version }, route) {
  return `/v2/models/${model.name}${version === '' ? '' : `/versions/${version}`}/${route}`;
}

export function writeInfer(dice, ask) {
  const { forms, outputs, binaryDefault } = drawForms(dice, ask);
  const tail = [];
  const inputs = Object.entries(ask.inputs).map(([name, { datatype, shape, elements }]) => {
    const entry = [
      ['name', { string: name }],
      ['datatype', { string: datatype }],
      ['shape', treeOf(shape)],
    ];
    if (forms[name] === 'json') {
      entry.push(['data', { array: elements.map((element) => elementNode(datatype, element)) }]);
    } else {
      const bytes = encodeElements(datatype, elements);
      tail.push(bytes);
      entry.push(['parameters', treeOf({ binary_data_size: bytes.length })]);
    }
    return { object: entry };
  });
  const tree = { object: [['inputs', { array: inputs }]] };
  if (ask.id !== '' || dice.chance(0.1)) tree.object.unshift(['id', { string: ask.id }]);
  const parameters = parameterMembers(ask.parameters);
  if (binaryDefault !== undefined) parameters.push(['binary_data_output', { text: String(binaryDefault) }]);
  if (parameters.length > 0) tree.object.push(['parameters', { object: parameters }]);
  if (outputs.length > 0) tree.object.push(['outputs', { array: outputs.map(outputNode) }]);
  const encoding = dice.weighted([
    [12, undefined],
    [1, 'gzip'],
    [1, 'deflate'],
  ]);
  const accepts = dice.weighted([
    [8, undefined],
    [1, 'gzip'],
    [1, 'deflate'],
    [1, 'gzip;q=0.5, deflate'],
    [1, 'identity'],
  ]);
  const expected = expectedOutputs(ask);
  return {
    kind: 'infer',
    model: ask.model,
    method: 'POST',
    path: modelPath(ask, 'infer'),
    headers: accepts === undefined ? [] : [['Accept-Encoding', accepts]],
    tree,
    tail: tail.length > 0 || Object.values(forms).includes('binary') ? Buffer.concat(tail) : undefined,
    encoding,
    expect: 'valid',
    status: 200,
    check: (answer) => checkInfer(answer, ask, expected),
  };
}

/** How each input and output travels. */
function drawForms(dice, { model, inputs, outputs }) {
  const share = dice.pick([0, 0, 0.5, 1]);
  const forms = {};
  for (const [name, { datatype, elements }] of Object.entries(inputs)) {
    const canBeJson = !isHalf(datatype) && elements.every((element) => hasJson(datatype, element));
    forms[name] = canBeJson && !dice.chance(share) ? 'json' : 'binary';
  }
  const onlyBinary = model.outputs.some(({ datatype }) => isHalf(datatype));
  if (outputs.length === 0) {
    return { forms, outputs: [], binaryDefault: onlyBinary ? true : dice.pick([undefined, undefined, true, false]) };
  }
  const listed = outputs.map((output) => ({
    ...output,
    binary: onlyBinary ? true : dice.pick([undefined, undefined, true, false]),
  }));
  // What is listed twice counts once.
  if (dice.chance(0.05)) listed.push(listed[0]);
  return { forms, outputs: listed, binaryDefault: dice.chance(0.1) ? dice.chance(0.5) : undefined };
}

function outputNode({ name, binary, classes }) {
  const parameters = {
    ...(binary === undefined ? {} : { binary_data: binary }),
    ...(classes === 0 ? {} : { classification: classes }),
  };
  return treeOf({ name, ...(Object.keys(parameters).length === 0 ? {} : { parameters }) });
}

function parameterMembers({ custom, own }) {
  return [...Object.entries(custom), ...Object.entries(own)].map(([name, value]) => [
    name,
    typeof value === 'string' ? { string: value } : { text: String(value) },
  ]);
}

/** The whole body is the one input (`Inference-Header-Content-Length: 0`). */
function rawInfer(dice) {
  const able = MODELS.filter(
    ({ inputs, seesParameters }) =>
      inputs.length === 1 &&
      !seesParameters &&
      inputs[0].dims.filter((dim) => dim === -1).length <= 1 &&
      (inputs[0].datatype !== 'BYTES' || inputs[0].dims.every((dim) => dim === 1)),
  );
  const drawn = drawInfer(dice, dice.pick(able));
  const [{ name, datatype }] = drawn.model.inputs;
  const given = drawn.inputs[name];
  const { shape, elements } = drawn.model.batchMax > 0 ? firstRow(given) : given;
  const ask = {
    ...drawn,
    id: '',
    outputs: [],
    inputs: { [name]: { datatype, shape, elements } },
    parameters: { custom: {}, own: {} },
  };
  const expected = expectedOutputs(ask);
  return {
    kind: 'raw',
    model: ask.model,
    method: 'POST',
    path: modelPath(ask, 'infer'),
    headers: [['Inference-Header-Content-Length', '0']],
    raw: datatype === 'BYTES' ? elements[0] : encodeElements(datatype, elements),
    expect: 'valid',
    status: 200,
    check: (answer) => checkInfer(answer, ask, expected),
  };
}

function firstRow({ shape: [, ...dims], elements }) {
  const count = dims.reduce((product, dim) => product * dim, 1);
  return { shape: [1, ...dims], elements: elements.slice(0, count) };
}

/** Why an answer is not the right one; undefined where it is. */
export function checkInfer(answer, { model, id }, expected) {
  const length = answer.headers.get('inference-header-content-length');
  const jsonBytes = length === undefined ? answer.body.length : Number(length);
  if (!(jsonBytes <= answer.body.length)) return `its JSON has ${length} of ${answer.body.length} bytes`;
  const json = readJson(answer.body.subarray(0, jsonBytes));
  if (json.get('model_name') !== model.name) return `model_name is ${json.get('model_name')}`;
  if (json.get('model_version') !== '1') return `model_version is ${json.get('model_version')}`;
  if ((json.get('id') ?? '') !== asRead(id)) return `id is ${json.get('id')}`;
  const outputs = json.get('outputs');
  const names = outputs.map((output) => output.get('name'));
  const wanted = Object.keys(expected);
  if ([...names].sort().join() !== [...wanted].sort().join()) return `outputs are ${names}, not ${wanted}`;
  let at = jsonBytes;
  for (const output of outputs) {
    const { datatype, shape, elements } = expected[output.get('name')];
    const place = `output ${output.get('name')}`;
    if (output.get('datatype') !== datatype) return `${place} is ${output.get('datatype')}, not ${datatype}`;
    const got = output.get('shape').map(({ number }) => number);
    if (got.join() !== shape.join()) return `${place} has shape [${got}], not [${shape}]`;
    const size = output.get('parameters')?.get('binary_data_size');
    let differ;
    if (size === undefined) {
      differ = elementsDiffer(datatype, elements, elementsFromJson(datatype, output.get('data')));
    } else {
      const bytes = answer.body.subarray(at, at + Number(size.number));
      at += Number(size.number);
      differ = elementsDiffer(datatype, elements, decodeElements(datatype, bytes));
    }
    if (differ !== undefined) return `${place}: ${differ}`;
  }
  return at === answer.body.length ? undefined : `${answer.body.length - at} bytes stand behind the outputs`;
}

/** A body in the encoding that its header names. */
export function encodeBody(encoding, bytes) {
  if (encoding === 'gzip') return gzipSync(bytes, { level: 1 });
  return encoding === 'deflate' ? deflateSync(bytes, { level: 1 }) : bytes;
}
