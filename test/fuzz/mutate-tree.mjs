import { otherDatatype } from './draw-infer.mjs';
import { member, replace, setMember, treeOf, walk, writeJson } from './json-tree.mjs';
import { hurt } from './mutation.mjs';

/** Mutations of a request's JSON. Those that `keep` leave a request that means the same. */

/** Of an input that is repeated thousands of times. */
const REPEATED_BYTES_MAX = 200;
const DEPTHS = [2, 50, 99, 101, 5_000];
const HUGE = [
  '9223372036854775807',
  '9223372036854775808',
  '18446744073709551616',
  '99999999999999999999999',
  '4294967296',
];
const ODD_VALUES = [
  { text: 'null' },
  { text: 'true' },
  { text: '5' },
  { text: '-1' },
  { text: '1.5' },
  { text: '1e400' },
  { text: '1e-400' },
  { text: 'NaN' },
  { text: '-Infinity' },
  { text: '-' },
  { text: '01' },
  { text: '0x10' },
  { text: 'undefined' },
  { text: '' },
  { text: '9'.repeat(400) },
  { string: '' },
  { string: 'text' },
  { string: '\u0000' },
  { string: 'y'.repeat(5_000) },
  { bytes: Buffer.from([0xff, 0xfe]) },
  { bytes: Buffer.from([0x61, 0x00, 0x62]) },
  { bytes: Buffer.from('\\ud800') },
  { bytes: Buffer.from('\\x41') },
  { array: [] },
  { array: [{ text: 'null' }] },
  { object: [] },
  { object: [['a', { text: '1' }]] },
];
const ODD_NAMES = [
  '',
  'inputs',
  'data',
  'shape',
  'x',
  'parameters',
  'name',
  '__proto__',
  'toString',
  '\u0000',
  'é'.repeat(200),
];
/** Names in what `extraMembers` adds. */
const FOREIGN = ['a', 'b'];
const SHAPES = [
  ['9223372036854775807'],
  ['4294967296', '4294967296', '4294967296'],
  ['4611686018427387904', '4'],
  ['1', '274877906944'],
  ['-1'],
  ['1', '-16'],
  ['0'],
  ['0', '16'],
  ['1', '0'],
  [],
  ['1.0'],
  ['1e0'],
  ['"1"'],
  ['null'],
  ['1', '16', '1'],
  Array(2_000).fill('1'),
  ['99999999999999999999999'],
];

const anyNode = (request, dice, test = () => true) => {
  const found = walk(request.tree).filter(test);
  return found.length === 0 ? undefined : dice.pick(found);
};
/** A copy: what is put into a tree may be changed there. */
const oddValue = (dice) => structuredClone(dice.pick(ODD_VALUES));
const objects = (place) => place.node.object !== undefined;
const filled = (place) => (place.node.object?.length ?? 0) > 0;

/** One of `inputs`' entries, where that is a list of objects. */
function anyInput(request, dice) {
  const entries = (member(request.tree, 'inputs')?.array ?? []).filter(({ object }) => object !== undefined);
  return entries.length === 0 ? undefined : dice.pick(entries);
}

function withInput(change) {
  return (request, dice) => {
    const input = anyInput(request, dice);
    if (input === undefined) return;
    hurt(request, change(input, dice) ?? 'any');
  };
}

function nested(depth, open, close, inside) {
  return { text: open.repeat(depth) + inside + close.repeat(depth) };
}

/** Has a tree that the protocol defines all members of. */
const isInfer = ({ kind }) => kind === 'infer' || kind === 'job';

export const BREAKING_TREE = {
  removeMember(request, dice) {
    const place = anyNode(request, dice, filled);
    if (place === undefined) return;
    const [[name]] = place.node.object.splice(dice.int(0, place.node.object.length - 1), 1);
    const isNeeded =
      isInfer(request) && (place.parent === undefined ? name === 'inputs' : ['datatype', 'shape'].includes(name));
    hurt(request, isNeeded ? 'refused' : 'any');
  },
  repeatMember(request, dice) {
    const place = anyNode(request, dice, filled);
    if (place === undefined) return;
    const twice = dice.pick(place.node.object);
    place.node.object.push(structuredClone(twice));
    // Inside of members that it does not know the server does not look.
    hurt(request, isInfer(request) && !FOREIGN.includes(twice[0]) ? 'refused' : 'any');
  },
  renameMember(request, dice) {
    const place = anyNode(request, dice, filled);
    if (place === undefined) return;
    dice.pick(place.node.object)[0] = dice.pick(ODD_NAMES);
    hurt(request);
  },
  addMember(request, dice) {
    const place = anyNode(request, dice, objects);
    if (place === undefined) return;
    place.node.object.push([dice.pick(ODD_NAMES), oddValue(dice)]);
    hurt(request);
  },
  retype(request, dice) {
    replace(anyNode(request, dice), oddValue(dice));
    hurt(request);
  },
  exchange(request, dice) {
    const [one, other] = [
      anyNode(request, dice, ({ parent }) => parent),
      anyNode(request, dice, ({ parent }) => parent),
    ];
    if (one === undefined || other === undefined) return;
    // By value: neither may come to hold itself.
    const [first, second] = [structuredClone(one.node), structuredClone(other.node)];
    replace(one, second);
    replace(other, first);
    hurt(request);
  },
  nestDeep(request, dice) {
    const place = anyNode(request, dice);
    const depth = dice.pick(DEPTHS);
    replace(place, dice.chance(0.5) ? nested(depth, '[', ']', '1') : nested(depth, '{"a":', '}', '1'));
    hurt(request, isInfer(request) && depth > 101 ? 'refused' : 'any');
  },
  leaveOpen(request, dice) {
    replace(anyNode(request, dice), { text: dice.pick(['[', '{', '{"a":', '"']).repeat(dice.pick([1, 3, 20_000])) });
    hurt(request, isInfer(request) ? 'refused' : 'any');
  },
  shape: withInput((input, dice) => setMember(input, 'shape', { array: dice.pick(SHAPES).map((text) => ({ text })) })),
  hugeDimension: withInput((input, dice) => {
    const dims = member(input, 'shape')?.array;
    if (dims?.length > 0) dims[dice.int(0, dims.length - 1)] = { text: dice.pick(HUGE) };
  }),
  fewerData: withInput((input) => void member(input, 'data')?.array?.pop()),
  moreData: withInput((input, dice) => void member(input, 'data')?.array?.push(oddValue(dice))),
  element: withInput((input, dice) => {
    const data = member(input, 'data')?.array;
    if (data?.length > 0)
      data[dice.int(0, data.length - 1)] = dice.chance(0.5) ? oddValue(dice) : { text: dice.pick(HUGE) };
  }),
  datatype: withInput((input, dice) => {
    const datatype = member(input, 'datatype')?.string ?? 'FP32';
    const other = dice.pick([otherDatatype(dice, datatype), datatype.toLowerCase(), `TYPE_${datatype}`, '', 'FP128']);
    setMember(input, 'datatype', { string: other });
  }),
  binarySize: withInput((input, dice) => {
    const size = dice.pick(['0', '1', '3', '64', '-1', '1.5', '"64"', ...HUGE]);
    setMember(input, 'parameters', { object: [['binary_data_size', { text: size }]] });
  }),
  twoForms: withInput((input) => {
    setMember(input, 'data', { array: [{ text: '1' }] });
    setMember(input, 'parameters', treeOf({ binary_data_size: 4 }));
    return 'refused';
  }),
  sharedMemory: withInput((input, dice) => {
    const object = [['shared_memory_region', dice.chance(0.3) ? { string: 'none' } : oddValue(dice)]];
    if (dice.chance(0.5)) object.push(['shared_memory_byte_size', { text: dice.pick(['64', '0', '-1', ...HUGE]) }]);
    if (dice.chance(0.5)) object.push(['shared_memory_offset', { text: dice.pick(['0', '-1', ...HUGE]) }]);
    const data = input.object.findIndex(([name]) => name === 'data');
    if (data >= 0 && dice.chance(0.7)) input.object.splice(data, 1);
    setMember(input, 'parameters', { object });
  }),
  repeatInput: (request, dice) => {
    const inputs = member(request.tree, 'inputs')?.array;
    if (inputs === undefined || inputs.length === 0) return;
    const twice = dice.pick(inputs);
    const many = writeJson(twice).length < REPEATED_BYTES_MAX ? 5_000 : 2;
    inputs.push(...dice.list(dice.pick([1, 2, many]), () => structuredClone(twice)));
    hurt(request, isInfer(request) ? 'refused' : 'any');
  },
  output(request, dice) {
    const entry = dice.pick([
      { name: 'MISSING' },
      { name: 'OUTPUT', parameters: { classification: -1 } },
      { name: 'OUTPUT', parameters: { classification: 10 ** 12 } },
      { name: 'OUTPUT0', parameters: { classification: 1.5 } },
      { name: 'OUTPUT', parameters: { binary_data: 'yes' } },
      { name: 'OUTPUT0', parameters: { shared_memory_region: 'none', shared_memory_byte_size: 64 } },
      { name: 'OUTPUT', parameters: { shared_memory_region: 'none', classification: 1 } },
      { parameters: {} },
      5,
    ]);
    setMember(request.tree, 'outputs', { array: [treeOf(entry)] });
    hurt(request);
  },
  parameter(request, dice) {
    const entry = dice.pick([
      { triton_enable: true },
      { x: [] },
      { x: { y: 1 } },
      { x: null },
      { sequence_id: -1 },
      { sequence_id: 1.5 },
      { sequence_start: 1 },
      { priority: -1 },
      { timeout: 'soon' },
      { timeout: -5 },
      { binary_data_output: 1 },
      Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`p${index}`, index])),
    ]);
    setMember(request.tree, 'parameters', treeOf(entry));
    hurt(request);
  },
};

/** A number of the same value in other words; integers stay integers. */
function respelled(text, dice, isFloat) {
  const number = Number(text);
  if (!isFloat || !Number.isFinite(number) || Object.is(number, -0) || /[eE]/.test(text)) return text;
  return dice.pick([
    text,
    number.toExponential().replace('e+', dice.pick(['e', 'E+', 'e+0'])),
    text.includes('.') ? `${text}000` : `${text}.00`,
    `${number.toExponential().replace('e', 'E')}`,
  ]);
}

/** Groups a flat list in lists, in any way: nesting has no meaning. */
function grouped(items, dice, depth = 0) {
  if (items.length === 0 || depth > 3) return items;
  const groups = [];
  for (let at = 0; at < items.length; ) {
    const size = dice.int(1, items.length);
    const part = items.slice(at, at + size);
    groups.push(...(dice.chance(0.7) ? [{ array: grouped(part, dice, depth + 1) }] : part));
    at += size;
  }
  return groups;
}

const isMeant = (request) => isInfer(request) && request.tree !== undefined;

function eachInput(request, change) {
  for (const input of member(request.tree, 'inputs')?.array ?? []) if (input.object !== undefined) change(input);
}

/** These leave what the request means as it is. */
export const KEEPING_TREE = {
  shuffleMembers(request, dice) {
    for (const { node } of walk(request.tree)) if (node.object !== undefined) node.object = dice.shuffle(node.object);
  },
  spaces(request, dice) {
    request.style = { ...request.style, spaces: dice.pick([0.05, 0.5]) };
  },
  escapes(request, dice) {
    request.style = { ...request.style, escapes: dice.pick([0.05, 0.6]) };
  },
  nestData(request, dice) {
    if (!isMeant(request)) return;
    eachInput(request, (input) => {
      const data = member(input, 'data');
      if (data?.array !== undefined) data.array = grouped(data.array, dice);
    });
  },
  respellNumbers(request, dice) {
    if (!isMeant(request)) return;
    eachInput(request, (input) => {
      const isFloat = /^FP/.test(member(input, 'datatype')?.string ?? '');
      const data = member(input, 'data');
      if (data === undefined) return;
      for (const { node } of walk(data)) if (node.text !== undefined) node.text = respelled(node.text, dice, isFloat);
    });
  },
  extraMembers(request, dice) {
    if (!isMeant(request)) return;
    const extra = () => [
      `x-${dice.int(0, 1e9)}`,
      dice.pick([
        { text: 'null' },
        treeOf({ [FOREIGN[0]]: [1, { [FOREIGN[1]]: 'c' }] }),
        { text: 'NaN' },
        nested(20, '[', ']', ''),
      ]),
    ];
    request.tree.object?.splice(dice.int(0, request.tree.object.length), 0, extra());
    eachInput(request, (input) => {
      if (dice.chance(0.5)) input.object.unshift(extra());
      const parameters = member(input, 'parameters');
      if (parameters?.object !== undefined && dice.chance(0.5)) parameters.object.push(extra());
    });
  },
  emptyMembers(request, dice) {
    if (!isMeant(request) || request.tree.object === undefined) return;
    if (member(request.tree, 'parameters') === undefined && dice.chance(0.5))
      request.tree.object.push(['parameters', { object: [] }]);
    if (member(request.tree, 'outputs') === undefined && dice.chance(0.5))
      request.tree.object.push(['outputs', { array: [] }]);
  },
};
