// Lists the models of openapi.json and sends requests to them. Whatever comes from the server is put in as text.

/** A longer answer is cut: the page would stand still. */
const ANSWER_LETTERS_MAX = 200_000;

const at = (id) => document.getElementById(id);

/** An element with children, texts or elements. */
function element(name, children = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** @type {Map<string, { path: string, facts: object, example: unknown }[]>} the requests of each model */
let models = new Map();
/** The request that is shown. */
let shown;

function requestsOf(openapi) {
  const found = new Map();
  for (const [path, item] of Object.entries(openapi.paths)) {
    const facts = item.post?.['x-nereid-model'];
    if (facts === undefined) continue;
    const example = item.post.requestBody.content['application/json']?.example;
    found.set(facts.name, [...(found.get(facts.name) ?? []), { path, facts, example }]);
  }
  return found;
}

function listModels() {
  const wanted = at('filter').value.toLowerCase();
  const names = [...models.keys()].filter((name) => name.toLowerCase().includes(wanted));
  const buttons = names.map((name) => {
    const button = element('button', [name], { type: 'button' });
    button.setAttribute('aria-current', String(name === shown?.facts.name));
    button.addEventListener('click', () => choose(name));
    return element('li', [button]);
  });
  at('models').replaceChildren(...buttons);
  at('none').hidden = names.length > 0;
}

function choose(name) {
  const requests = models.get(name);
  at('model').textContent = name;
  at('path').replaceChildren(...requests.map(({ path }) => element('option', [path], { value: path })));
  at('about').hidden = false;
  show(requests[0]);
  listModels();
  at('model').focus();
}

function show(request) {
  shown = request;
  const { facts, example } = request;
  at('tensors').replaceChildren(table('Inputs', facts.inputs), table('Outputs', facts.outputs));
  at('hint').textContent =
    example === undefined
      ? 'This model has no example: a tensor is very large, or has no form in JSON (FP16, BF16), so that it takes the binary form.'
      : 'A dimension of -1 takes any size. Outputs in the binary form are not shown.';
  at('body').value = example === undefined ? '' : written(example);
  at('answer').textContent = '';
  say('');
}

function table(title, tensors) {
  const head = element(
    'tr',
    ['name', 'datatype', 'shape'].map((text) => element('th', [text], { scope: 'col' })),
  );
  const rows = tensors.map(({ name, datatype, shape, optional }) =>
    element('tr', [
      element('td', [optional ? `${name} (may be left out)` : name]),
      element('td', [datatype]),
      element('td', [`[${shape.join(', ')}]`]),
    ]),
  );
  return element('table', [element('caption', [title]), element('thead', [head]), element('tbody', rows)]);
}

/** JSON with a line for each member, and one for each list of values. */
function written(value) {
  const lists = [];
  const marked = JSON.stringify(
    value,
    (_key, part) => {
      if (!Array.isArray(part) || part.some((entry) => typeof entry === 'object')) return part;
      lists.push(JSON.stringify(part));
      return `\u0000${lists.length - 1}\u0000`;
    },
    2,
  );
  return marked.replace(/"\\u0000(\d+)\\u0000"/g, (_text, index) => lists[index]);
}

function say(text, isBad = false) {
  at('status').textContent = text;
  at('status').className = isBad ? 'bad' : '';
}

async function send(event) {
  event.preventDefault();
  const { path } = shown;
  say('Waiting for the answer …');
  at('answer').textContent = '';
  const start = performance.now();
  try {
    const response = await fetch(path, { method: 'POST', body: at('body').value });
    const bytes = new Uint8Array(await response.arrayBuffer());
    const milliseconds = (performance.now() - start).toFixed(1);
    say(`${response.status} ${response.statusText}, ${bytes.length} bytes in ${milliseconds} ms`, !response.ok);
    at('answer').textContent = answerText(response, bytes);
  } catch (error) {
    say(`No answer: ${error.message}`, true);
  }
}

function answerText(response, bytes) {
  const header = response.headers.get('inference-header-content-length');
  const text = new TextDecoder().decode(header === null ? bytes : bytes.subarray(0, Number(header)));
  const whole = pretty(text);
  const rest = header === null ? '' : `\n(${bytes.length - Number(header)} bytes of tensors follow)`;
  return (whole.length > ANSWER_LETTERS_MAX ? `${whole.slice(0, ANSWER_LETTERS_MAX)}…` : whole) + rest;
}

/** NaN and large integers would not survive being read: such an answer is shown as it came. */
function pretty(text) {
  try {
    const value = JSON.parse(text);
    const isExact = !/[0-9]{16}/.test(text);
    return isExact ? written(value) : text;
  } catch {
    return text;
  }
}

async function start() {
  try {
    const response = await fetch('openapi.json');
    const document = await response.json();
    if (!response.ok) throw new Error(document.error);
    models = requestsOf(document);
    listModels();
  } catch (error) {
    at('failed').textContent = `The list of models could not be read: ${error.message}`;
    at('failed').hidden = false;
  }
}

at('filter').addEventListener('input', listModels);
at('path').addEventListener('change', ({ target }) => {
  show(models.get(shown.facts.name).find(({ path }) => path === target.value));
});
at('try').addEventListener('submit', send);
at('example').addEventListener('click', () => show(shown));
// As in many editors: the request goes out without leaving the text.
at('body').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) at('try').requestSubmit();
});
void start();
