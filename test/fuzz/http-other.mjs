import { drawInfer, expectedOutputs } from './draw-infer.mjs';
import { checkInfer, modelPath, writeInfer } from './http-infer.mjs';
import { asRead, readJson, treeOf } from './json-tree.mjs';
import { FAILING, MODELS, WORDS } from './models.mjs';
import { elementNode, elementsDiffer, elementsFromJson, isHalf, randomElement } from './tensors.mjs';

/** Valid requests over HTTP to all other routes. */

const GENERATED = [
  'text',
  'simple',
  'add_sub',
  'optional_inputs',
  'identity_bool',
  'identity_int64',
  'identity_bytes',
  'identity_2d',
];
const WORDS_MAX = 5;

const get = (path, check, more = {}) => ({
  kind: 'admin',
  method: 'GET',
  path,
  headers: [],
  expect: 'valid',
  status: 200,
  check: check ?? (() => undefined),
  ...more,
});
const post = (path, tree, check, more = {}) => ({ ...get(path, check, more), method: 'POST', tree });

const json = (check) => (answer) => check(readJson(answer.body));
const isWord = (name, wanted) =>
  json((body) => (body.get(name) === wanted ? undefined : `${name} is ${body.get(name)}`));
const isList = json((body) => (Array.isArray(body) ? undefined : 'it is no list'));
const has = (name) => json((body) => (body.has(name) ? undefined : `it has no ${name}`));
const isEmpty = ({ body }) => (body.length === 0 ? undefined : 'its body is not empty');

/** Reads, and writes of what every other request leaves as it is. */
export function adminRequest(dice) {
  const { name } = dice.pick(MODELS);
  const version = dice.pick(['', '', '/versions/1', '/versions/01']);
  const model = `/v2/models/${name}${version}`;
  return dice.pick([
    () => get('/v2', has('extensions')),
    () => get('/v2/health/live', isEmpty),
    () => get('/v2/health/ready', isEmpty),
    () => get(model, isWord('name', name)),
    () => get(`${model}/config`, isWord('name', name)),
    () => get(`${model}/ready`, isEmpty),
    () => get(`${model}/stats`, has('model_stats')),
    () => get('/v2/models/stats', has('model_stats')),
    () => post('/v2/repository/index', dice.pick([undefined, treeOf({}), treeOf({ ready: true })]), isList),
    () => get('/v2/trace/setting', has('trace_level')),
    () => get(`/v2/models/${name}/trace/setting`, has('trace_level')),
    () => post('/v2/trace/setting', treeOf(dice.pick(TRACE_SETTINGS)), has('trace_level')),
    () => post(`/v2/models/${name}/trace/setting`, treeOf(dice.pick(TRACE_SETTINGS)), has('trace_level')),
    () => get('/v2/logging', has('log_info')),
    () => post('/v2/logging', treeOf(dice.pick(LOG_SETTINGS)), has('log_info')),
    () => get('/v2/systemsharedmemory/status', isList),
    () => get('/v2/cudasharedmemory/status', isList),
    () => post(`/v2/systemsharedmemory/region/${dice.pick(['a', 'b'])}/unregister`, undefined, isEmpty),
    () => post('/v2/systemsharedmemory/unregister', undefined, isEmpty),
    () => get('/openapi.json', has('paths')),
    () => get('/openapi', undefined, { html: true }),
  ])();
}

/** All of them can be set back by the defaults in settings.mjs. */
const TRACE_SETTINGS = [{}, { trace_rate: '500' }, { trace_count: '7' }, { log_frequency: '3' }, { trace_rate: null }];
const LOG_SETTINGS = [
  { log_info: true },
  { log_verbose_level: 0 },
  { log_format: 'ISO8601' },
  { log_format: 'default', log_warning: true },
];

/** Requests that are rightly refused, each with its kind of text: they are mutated like any other. */
export function refusedRequest(dice) {
  const { name } = dice.pick(MODELS);
  const refused = (request) => ({ ...request, expect: 'refused' });
  return refused(
    dice.pick([
      () => get('/v2/models/missing'),
      () => get(`/v2/models/${name}/versions/7`),
      () => get(`/v2/models/${name}/versions/99999999999999999999/config`),
      () => get('/v2/models/missing/stats'),
      () => get('/v2/models/missing/ready'),
      () => post('/v2/models/missing/infer', treeOf({ inputs: [] })),
      () => post(`/v2/models/${WORDS.name}/infer`, treeOf({ inputs: [] })),
      () => post(`/v2/models/${WORDS.name}/jobs`, treeOf({ inputs: [] })),
      () => get('/v2/nothing'),
      () => get('/'),
      () => post('/v2/repository/models/simple/load', dice.pick([undefined, treeOf({})])),
      () => post('/v2/repository/models/missing/load', undefined),
      () =>
        post(
          '/v2/repository/models/simple/unload',
          dice.pick([undefined, treeOf({ parameters: { unload_dependents: true } })]),
        ),
      () =>
        post(
          '/v2/systemsharedmemory/region/c/register',
          treeOf({ key: '/nereid_fuzz_none', offset: 0, byte_size: 64 }),
        ),
      () =>
        post(
          '/v2/cudasharedmemory/region/c/register',
          treeOf({ raw_handle: { b64: 'AAAA' }, device_id: 0, byte_size: 64 }),
        ),
      () => get('/v2/systemsharedmemory/region/none/status'),
      () => post('/v2/trace/setting', treeOf({ trace_file: 'other' })),
      () => post('/v2/trace/setting', treeOf({ trace_level: ['OFF', 'TIMESTAMPS'] })),
      () => post('/v2/models/missing/trace/setting', treeOf({ trace_rate: '1' })),
      () => post('/v2/logging', treeOf({ log_file: 'other' })),
      () => post('/v2/logging', treeOf({ log_format: 'fancy' })),
      () => get('/v2/jobs/simple~nothing'),
      () => get('/v2/jobs/x/result?wait=1ms'),
      () => get('/v2/jobs/simple~1?wait=soon'),
      () =>
        post(
          `/v2/models/${FAILING.name}/infer`,
          treeOf({ inputs: [{ name: 'INPUT', datatype: 'INT32', shape: [2], data: [1, 2] }] }),
        ),
      () => post('/v2/models/simple/infer', treeOf({ inputs: [inShared('INPUT0'), inShared('INPUT1')] })),
    ])(),
  );
}

function inShared(name) {
  return {
    name,
    datatype: 'INT32',
    shape: [1, 16],
    parameters: { shared_memory_region: 'none', shared_memory_byte_size: 64, shared_memory_offset: 0 },
  };
}

/** `generate` of a model whose tensors have a form in JSON, or of the decoupled one. */
export function generateRequest(dice) {
  if (dice.chance(0.3)) return wordsRequest(dice);
  const wanted = dice.pick(GENERATED);
  const model = MODELS.find(({ name }) => name === wanted);
  const drawn = drawInfer(dice, model);
  // One row, and no dimension of zero: what a flat list of elements can say.
  const inputs = Object.fromEntries(
    model.inputs
      .filter(({ name }) => drawn.inputs[name] !== undefined)
      .map(({ name, datatype, dims }) => {
        const shape = [...(model.batchMax > 0 ? [1] : []), ...flatShape(dice, dims)];
        const count = shape.reduce((product, dim) => product * dim, 1);
        return [name, { datatype, shape, elements: dice.list(count, () => randomElement(dice, datatype)) }];
      }),
  );
  const expected = expectedOutputs({ ...drawn, inputs, outputs: [] });
  const members = Object.entries(inputs).map(([name, { datatype, elements }]) => {
    const nodes = elements.map((element) => elementNode(datatype, element));
    return [name, nodes.length === 1 && dice.chance(0.7) ? nodes[0] : { array: nodes }];
  });
  const id = dice.pick(['', '', 'g-1']);
  if (id !== '') members.push(['id', { string: id }]);
  if (dice.chance(0.2)) members.push(['temperature', { text: '0.5' }]);
  if (dice.chance(0.2)) members.push(['parameters', treeOf({ colour: 'red', count: 2, flag: true })]);
  const streamed = dice.chance(0.4);
  return post(
    modelPath({ model, version: drawn.version }, streamed ? 'generate_stream' : 'generate'),
    { object: dice.shuffle(members) },
    (answer) => checkGenerated(streamed ? frames(answer.body) : [readJson(answer.body)], model, id, expected),
    { kind: 'generate', events: streamed },
  );
}

/** The one variable dimension takes all, others are 1: as the server reads a flat list. */
function flatShape(dice, dims) {
  const last = dims.lastIndexOf(-1);
  return dims.map((dim, index) => (dim !== -1 ? dim : index === last ? dice.int(1, 5) : 1));
}

function checkGenerated(answers, model, id, expected) {
  if (answers.length !== 1) return `${answers.length} answers, not 1`;
  const [body] = answers;
  if (body.get('model_name') !== model.name) return `model_name is ${body.get('model_name')}`;
  if ((body.get('id') ?? '') !== asRead(id)) return `id is ${body.get('id')}`;
  for (const [name, { datatype, elements }] of Object.entries(expected)) {
    const value = body.get(name);
    const differ = elementsDiffer(
      datatype,
      elements,
      elementsFromJson(datatype, Array.isArray(value) ? value : [value]),
    );
    if (differ !== undefined) return `${name}: ${differ}`;
  }
  return undefined;
}

/** The documents of a stream of server-sent events. */
export function frames(body) {
  const text = body.toString('latin1');
  if (text === '') return [];
  if (!text.endsWith('\n\n')) throw new Error('a stream that ends inside an event');
  return text
    .slice(0, -2)
    .split('\n\n')
    .map((frame) => {
      if (!frame.startsWith('data: ')) throw new Error(`an event that is no data: ${frame.slice(0, 60)}`);
      return readJson(Buffer.from(frame.slice('data: '.length), 'latin1'));
    });
}

function wordsRequest(dice) {
  const count = dice.int(0, WORDS_MAX);
  const word = randomElement(dice, 'BYTES');
  const check = (answer) => {
    const found = frames(answer.body);
    const index = found.findIndex(
      (frame, at) => frame.get('WORD') !== word.toString('latin1') || frame.get('INDEX')?.number !== String(at),
    );
    if (index >= 0) return `answer ${index} is not the right one`;
    return found.length === count ? undefined : `${found.length} answers, not ${count}`;
  };
  return post(
    `/v2/models/${WORDS.name}/generate_stream`,
    {
      object: [
        ['TEXT', elementNode('BYTES', word)],
        ['COUNT', { text: String(count) }],
      ],
    },
    check,
    { kind: 'generate', events: true },
  );
}

/** A job, whose result is asked for next: it must be what infer would have answered. */
export function jobRequest(dice) {
  const able = MODELS.filter(({ outputs }) => !outputs.some(({ datatype }) => isHalf(datatype)));
  const ask = drawInfer(dice, dice.pick(able));
  const request = writeInfer(dice, {
    ...ask,
    classes: 0,
    outputs: ask.outputs.map(({ name }) => ({ name, classes: 0 })),
  });
  const expected = expectedOutputs({ ...ask, outputs: ask.outputs.map(({ name }) => ({ name, classes: 0 })) });
  return {
    ...request,
    kind: 'job',
    encoding: undefined,
    path: modelPath(ask, 'jobs'),
    headers: dice.pick([[], [['Nereid-Priority', String(dice.int(0, 1000))]], [['Nereid-Attempts', '1']]]),
    status: 202,
    check: has('id'),
    next: (answer) => ({
      ...get(`/v2/jobs/${readJson(answer.body).get('id')}/result?wait=20s`, (result) =>
        checkInfer(result, ask, expected),
      ),
      kind: 'result',
    }),
  };
}
