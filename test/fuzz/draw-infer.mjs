import { parametersSeen } from './models.mjs';
import { DATATYPES, randomElement } from './tensors.mjs';

/** What an infer request asks, whatever form it takes: drawn once, written by HTTP, gRPC and jobs alike. */

const DIM_MAX = 5;
const FEW_CLASSES = 3;
/** More than a tensor that is classified has elements. */
const SCALE = 1_000;
/** Time-outs are far off: they have a meaning of their own where a queue policy allows them. */
const TIMEOUT_US = 3_600_000_000;
const IDS = ['', '', 'r-1', 'idée', 'x'.repeat(300), 'with "quotes" and \\', '0'];

/** @returns {{ model, version: string, id: string, inputs, outputs, parameters, classes }} */
export function drawInfer(dice, model) {
  const batch = model.batchMax > 0 ? [dice.int(1, model.batchMax)] : [];
  const classes = canClassify(model) && dice.chance(0.15) ? dice.int(1, FEW_CLASSES) : 0;
  const inputs = {};
  for (const { name, datatype, dims, optional = false } of model.inputs) {
    if (optional && dice.chance(0.4)) continue;
    const shape = [...batch, ...dims.map((dim) => (dim === -1 ? drawDim(dice, classes) : dim))];
    const count = shape.reduce((product, dim) => product * dim, 1);
    const elements =
      classes > 0
        ? distinct(dice, count, name === model.inputs[0].name ? SCALE : 1)
        : dice.list(count, () => randomElement(dice, datatype, model.anyBytes));
    inputs[name] = { datatype, shape, elements };
  }
  return {
    model,
    version: dice.weighted([
      [6, ''],
      [2, '1'],
    ]),
    id: dice.pick(IDS),
    inputs,
    outputs: drawOutputs(dice, model, classes),
    classes,
    parameters: drawParameters(dice, model),
  };
}

function drawDim(dice, classes) {
  return classes === 0 && dice.chance(0.08) ? 0 : dice.int(1, DIM_MAX);
}

/** Numbers of which none is like another, nor the sums or differences of those of two inputs, so that their order is known. */
function distinct(dice, count, scale) {
  return dice.shuffle(Array.from({ length: count }, (_, index) => (index + 1) * scale));
}

function canClassify({ inputs, outputs }) {
  return [...inputs, ...outputs].every(({ datatype }) => datatype === 'INT32' || datatype === 'FP32');
}

/** The outputs that are listed, in the client's order; none means all. */
function drawOutputs(dice, { outputs }, classes) {
  if (classes === 0 && dice.chance(0.5)) return [];
  const listed = dice.shuffle(outputs).slice(0, dice.int(1, outputs.length));
  return listed.map(({ name }) => ({ name, classes: dice.chance(0.8) ? classes : 0 }));
}

/** Custom parameters as JavaScript values: text, bigints, booleans and numbers that are no integers. */
function drawParameters(dice, { seesParameters = false }) {
  const custom = new Map();
  const count = dice.chance(seesParameters ? 0.9 : 0.15) ? dice.int(1, 4) : 0;
  for (let index = 0; index < count; index += 1) {
    const name = dice.pick(['colour', 'count', 'flag', 'ratio', 'naïve', '__proto__', 'constructor', 'x']);
    custom.set(
      name,
      dice.pick(['red', '', 'ünï', BigInt(dice.int(-1_000_000, 1_000_000)), 2n ** 63n - 1n, true, false, 0.5, -2.25]),
    );
  }
  const own = {};
  if (dice.chance(0.05)) own.priority = BigInt(dice.int(0, 10));
  if (dice.chance(0.05)) own.timeout = BigInt(TIMEOUT_US);
  // Not by assignment: `__proto__` is a name like any other.
  return { custom: Object.fromEntries(custom), own };
}

/**
 * What must come back: `{ name: { datatype, shape, elements } }`, where classes are asked for as the BYTES that they are.
 */
export function expectedOutputs({ model, inputs, outputs, parameters }) {
  const answers = model.answer(inputs);
  if (model.seesParameters) {
    answers.OUTPUT = inputs.INPUT;
    answers.SEEN = { shape: [1], elements: [Buffer.from(parametersSeen(asSeen(parameters.custom)))] };
  }
  const listed = outputs.length === 0 ? model.outputs.map(({ name }) => ({ name, classes: 0 })) : outputs;
  return Object.fromEntries(
    listed.map(({ name, classes }) => {
      const { datatype, labels } = model.outputs.find((output) => output.name === name);
      const { shape, elements } = answers[name];
      if (classes === 0) return [name, { datatype, shape, elements }];
      return [name, classesOf({ datatype, shape, elements }, classes, labels, model.batchMax > 0)];
    }),
  );
}

/** Integers reach a JavaScript model as numbers where they are safe. */
function asSeen(custom) {
  return Object.fromEntries(
    Object.entries(custom).map(([name, value]) => [
      name,
      typeof value === 'bigint' && Number.isSafeInteger(Number(value)) ? Number(value) : value,
    ]),
  );
}

function classesOf({ datatype, shape, elements }, classes, labels, batched) {
  const rows = batched ? shape[0] : 1;
  const each = elements.length / rows;
  const count = Math.min(classes, each);
  const texts = [];
  for (let row = 0; row < rows; row += 1) {
    const ranked = elements
      .slice(row * each, (row + 1) * each)
      .map((value, index) => ({ value, index }))
      .sort((a, b) => b.value - a.value);
    for (const { value, index } of ranked.slice(0, count)) {
      const number = datatype === 'FP32' ? value.toFixed(6) : String(value);
      const label = labels?.[index];
      texts.push(Buffer.from(`${number}:${index}${label === undefined ? '' : `:${label}`}`));
    }
  }
  return { datatype: 'BYTES', shape: batched ? [rows, count] : [count], elements: texts };
}

/** A datatype that is not this one. */
export function otherDatatype(dice, datatype) {
  return dice.pick(DATATYPES.filter((other) => other !== datatype));
}
