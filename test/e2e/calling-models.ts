import type { ModelFolder } from './model-folder.ts';

/** A module that has `context`, and `one`: a VALUE of one number. */
const withContext = (execute: string) => `
let context;
export const initialize = (start) => { context = start.context; };
const one = (value) => ({ datatype: 'INT32', shape: [1], data: Int32Array.of(value) });
${execute}`;

const BATCHES = { maxBatchSize: 8 };
const DECOUPLED = 'model_transaction_policy { decoupled: true }';
const PROCESS = 'parameters { key: "nereid.carrier" value { string_value: "process" } }';

const times = (factor: number) => `
export const execute = (requests) => requests.map(({ inputs }) => {
  const { data, ...rest } = inputs.get('VALUE');
  return { outputs: { VALUE: { ...rest, data: data.map((value) => value * ${factor}) } } };
});`;

/**
 * Models that call others: `both` and `both_in_process` (double and triple, for each request), `relays` and `counts`
 * (the stream `repeats`), and `series` (all steps of a sequence of `sums`).
 */
export function addCallingModels(folder: ModelFolder): void {
  folder.addJavaScript('double', times(2), 'dynamic_batching { }', BATCHES);
  folder.addJavaScript('triple', times(3), 'dynamic_batching { }', BATCHES);
  const both = withContext(`
    const sum = async (request) => {
      const call = (model) => context.infer(model, { inputs: request.inputs }, { request });
      const [a, b] = await Promise.all([call('double'), call('triple')]);
      const { data, ...rest } = a.outputs.VALUE;
      return { outputs: { VALUE: { ...rest, data: data.map((value, i) => value + b.outputs.VALUE.data[i]) } } };
    };
    export const execute = (requests) => Promise.all(requests.map(sum));`);
  folder.addJavaScript('both', both, 'dynamic_batching { }', BATCHES);
  folder.addJavaScript('both_in_process', both, `dynamic_batching { } ${PROCESS}`, BATCHES);
  folder.addJavaScript(
    'repeats',
    withContext(`
    async function* answers({ inputs }) {
      for (let i = 0; i < inputs.get('VALUE').data[0]; i++) yield { outputs: { VALUE: one(i) } };
    }
    export const execute = (requests) => requests.map(answers);`),
    DECOUPLED,
  );
  const relays = `export const execute = (requests) =>
      requests.map((request) => context.infer('repeats', { inputs: request.inputs }, { request }));`;
  folder.addJavaScript('relays', withContext(relays), DECOUPLED);
  const counts = `
    export const execute = (requests) => Promise.all(requests.map(async (request) => {
      let answers = 0;
      for await (const { outputs } of context.infer('repeats', { inputs: request.inputs })) answers += outputs.VALUE.shape[0];
      return { outputs: { VALUE: one(answers) } };
    }));`;
  folder.addJavaScript('counts', withContext(counts), PROCESS);
  folder.addJavaScript(
    'sums',
    withContext(`
    let sum;
    export const execute = (requests) => requests.map(({ flags, inputs }) => {
      sum = (flags & 1 ? 0 : sum) + inputs.get('VALUE').data[0];
      return { outputs: { VALUE: one(sum) } };
    });`),
    'sequence_batching { }',
  );
  const series = `
    let sequences = 0;
    export async function execute([{ inputs }]) {
      const last = inputs.get('VALUE').data[0];
      const id = 'series-' + ++sequences;
      const step = (value) => context.infer('sums', {
        inputs: { VALUE: one(value) },
        sequence: { id, start: value === 1, end: value === last },
      });
      let answer;
      for (let value = 1; value <= last; value++) answer = await step(value);
      return [answer];
    }`;
  folder.addJavaScript('series', withContext(series));
}

/**
 * A model that calls the model that the parameter `to` of a request names, as often as `calls` says, and answers what
 * that answers last.
 */
export function addForwards(folder: ModelFolder): void {
  const source = withContext(`
    export const execute = (requests) => Promise.all(requests.map(async (request) => {
      const { to, calls = 1 } = request.parameters;
      let answer;
      for (let call = 0; call < calls; call++) {
        answer = await context.infer(to, { inputs: request.inputs }, { request });
      }
      return answer;
    }));`);
  folder.addJavaScript('forwards', source, '', { instances: '{ count: 2, kind: KIND_CPU }' });
  const refuses = `export const execute = (requests) =>
      requests.map(({ id }) => Object.assign(new Error('not ' + (id || 'this')), { code: 'UNSUPPORTED' }));`;
  folder.addJavaScript('refuses', refuses);
}

/** A request for `forwards`. */
export function forwarded(to: string, value: number, calls = 1, id = ''): string {
  return JSON.stringify({
    id,
    parameters: { to, calls },
    inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1], data: [value] }],
  });
}
