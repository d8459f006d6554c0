/** `context.infer` of a JavaScript model: its form checked and made a request, and what comes back made values. */
import {
  CANCELLED,
  errorInfo,
  type InferRequest,
  type InferResponse,
  inferRequest,
  NereidError,
  type ParameterValue,
} from '@nereid/protocol';
import type { BatchRequest } from './backend.ts';
import type {
  ModelAnswer,
  ModelCall,
  ModelCallInput,
  ModelCallOptions,
  ModelContext,
  ModelRequest,
} from './javascript-model.ts';
import { modelParameters, modelTensor } from './javascript-request.ts';
import { type CallAnswer, failedCall, type ModelCalls, type OpenModelCall } from './model-calls.ts';

/** `originOf`: what a request that the model got was made of. */
export function contextInfer(
  calls: ModelCalls,
  originOf: (request: ModelRequest) => BatchRequest | undefined,
): ModelContext['infer'] {
  return (model, input, options = {}) => {
    try {
      const signal = checkedSignal(options.signal);
      const origins = originsOf(options.request, originOf);
      const request = callRequest(model, input, options, origins);
      if (signal?.aborted === true) return modelCall(model, failedCall(CANCELLED));
      const open = calls.open(
        request,
        origins?.flatMap(({ place }) => place ?? []),
      );
      return modelCall(model, signal === undefined ? open : leftBy(open, signal));
    } catch (wrong) {
      return modelCall(String(model), failedCall(errorInfo(wrong)));
    }
  };
}

function callRequest(
  model: string,
  input: ModelCallInput,
  options: ModelCallOptions,
  origins: readonly BatchRequest[] | undefined,
): InferRequest {
  const { version } = options;
  const only = origins?.length === 1 ? origins[0] : undefined;
  const named = { ...input, model, ...(version === undefined ? {} : { version }) };
  const request = inferRequest({
    ...named,
    inputs: namedInputs(input?.inputs),
    ...(isPlain(input?.parameters) ? { parameters: wholeNumbers(input.parameters) } : {}),
  });
  return request.id === '' && only !== undefined ? { ...request, id: only.request.id } : request;
}

/** The inputs by name; what is none of the forms is left to be refused. */
function namedInputs(inputs: ModelCallInput['inputs']): Readonly<Record<string, never>> {
  const entries: readonly (readonly [unknown, unknown])[] | undefined =
    inputs instanceof Map
      ? [...inputs]
      : Array.isArray(inputs)
        ? inputs.map((tensor: unknown) => [isPlain(tensor) ? tensor.name : undefined, tensor])
        : undefined;
  if (entries === undefined) return inputs as Readonly<Record<string, never>>;
  const names = new Set<unknown>();
  for (const [index, [name]] of entries.entries()) {
    if (typeof name !== 'string') throw wrong(`inputs[${index}].name`, `must be a string, got ${typeof name}`);
    if (names.has(name)) throw wrong(`inputs[${index}].name`, `'${name}' is the name of an input before it`);
    names.add(name);
  }
  return Object.fromEntries(entries) as Readonly<Record<string, never>>;
}

/** As in responses: a model's whole numbers are integers. */
function wholeNumbers(parameters: Readonly<Record<string, unknown>>): Record<string, ParameterValue> {
  const entries = Object.entries(parameters) as [string, ParameterValue][];
  return Object.fromEntries(
    entries.map(([name, value]) => [name, Number.isSafeInteger(value) ? BigInt(value as number) : value]),
  );
}

/** Undefined where the call names no requests. */
function originsOf(
  named: ModelCallOptions['request'],
  originOf: (request: ModelRequest) => BatchRequest | undefined,
): readonly BatchRequest[] | undefined {
  if (named === undefined) return undefined;
  const requests: readonly ModelRequest[] = Array.isArray(named) ? named : [named];
  return requests.map((request) => {
    const origin = isPlain(request) ? originOf(request) : undefined;
    if (origin === undefined) throw wrong('request', 'must be a request that execute got, or a list of such');
    return origin;
  });
}

function checkedSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined || signal instanceof AbortSignal) return signal;
  throw wrong('signal', 'must be an AbortSignal');
}

/** The same call, cancelled by a signal until it is over. */
function leftBy(open: OpenModelCall, signal: AbortSignal): OpenModelCall {
  signal.addEventListener('abort', open.cancel);
  // A signal may outlive very many calls.
  const unlisten = () => signal.removeEventListener('abort', open.cancel);
  return {
    async next() {
      const answer = await open.next();
      if (answer.last) unlisten();
      return answer;
    },
    cancel() {
      unlisten();
      open.cancel();
    },
  };
}

/** Only what is asked for is begun: a call that nobody awaits must not be a promise that nobody catches. */
function modelCall(model: string, open: OpenModelCall): ModelCall {
  let promise: Promise<ModelAnswer> | undefined;
  let iterator: AsyncIterator<ModelAnswer> | undefined;
  const once = () => Promise.reject(wrong('infer', 'gives its answers once: either await the call or iterate it'));
  const awaited = () => {
    promise ??= iterator === undefined ? onlyAnswer(model, open) : once();
    return promise;
  };
  return {
    // biome-ignore lint/suspicious/noThenProperty: it is a promise, made once it is awaited.
    then: (fulfilled, rejected) => awaited().then(fulfilled, rejected),
    catch: (rejected) => awaited().catch(rejected),
    finally: (settled) => awaited().finally(settled),
    [Symbol.toStringTag]: 'Promise',
    [Symbol.asyncIterator]() {
      iterator ??= promise === undefined ? answers(model, open) : { next: once };
      return iterator;
    },
  };
}

async function onlyAnswer(model: string, open: OpenModelCall): Promise<ModelAnswer> {
  const { outcome, last, decoupled } = await open.next();
  if (outcome.ok && decoupled) {
    if (!last) open.cancel();
    const how = `iterate the call (for await (const answer of context.infer('${model}', …)))`;
    throw new NereidError('UNSUPPORTED', `model '${model}' is decoupled: it may answer any number of times; ${how}`);
  }
  return answerValue(model, outcome);
}

function answers(model: string, open: OpenModelCall): AsyncIterator<ModelAnswer> {
  let over = false;
  const leave = (last: boolean) => {
    over = true;
    if (!last) open.cancel();
  };
  const take = async (): Promise<IteratorResult<ModelAnswer>> => {
    if (over) return { done: true, value: undefined };
    const { outcome, last } = await open.next();
    if (last || !outcome.ok) leave(last);
    if (outcome.ok && last && outcome.response.outputs.length === 0) return { done: true, value: undefined };
    return { done: false, value: answerValue(model, outcome) };
  };
  /** One at a time: who asks ahead of the last answer is told of the end, too. */
  let asked: Promise<unknown> = Promise.resolve();
  return {
    next() {
      const answer = asked.then(take, take);
      asked = answer;
      return answer;
    },
    async return() {
      if (!over) leave(false);
      return { done: true, value: undefined };
    },
  };
}

/** The text says whose error it is: the model may let it pass to a client, who has asked for another model. */
function answerValue(model: string, outcome: CallAnswer['outcome']): ModelAnswer {
  if (outcome.ok) return answerOf(outcome.response);
  const { code, message, ...detail } = outcome.error;
  throw new NereidError(code, `in a call of model '${model}', ${message}`, detail);
}

function answerOf({ modelName, modelVersion, parameters, outputs }: InferResponse): ModelAnswer {
  return {
    modelName,
    modelVersion,
    parameters: modelParameters(parameters),
    outputs: Object.fromEntries(outputs.map((output) => [output.name, modelTensor(output)])),
  };
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> & ModelRequest {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function wrong(field: string, text: string): NereidError {
  return new NereidError('INVALID_ARG', `context.infer: ${field} ${text}`, { field });
}
