/** Flat JSON in and out (docs/generate.md): for models whose tensors are small, and for streams. */
import { NereidError } from './error.ts';
import type { CallOptions, Http } from './http.ts';
import { isObject, jsonText, type Parameters, parseJson } from './json.ts';
import { serverEvents } from './server-events.ts';

/** A value, or those of a tensor row by row; the shape follows from how many there are. */
export type FlatValues = string | number | bigint | boolean | readonly (string | number | bigint | boolean)[];

export interface GenerateInput {
  readonly model: string;
  /** The greatest ready version without it. */
  readonly version?: string;
  readonly id?: string;
  readonly inputs: Readonly<Record<string, FlatValues>>;
  readonly parameters?: Parameters;
}

/** Outputs and the model's parameters by name: a value where there is one, else an array. */
export interface GenerateAnswer {
  readonly model_name: string;
  readonly model_version: string;
  readonly id?: string;
  readonly [name: string]: unknown;
}

/** The one answer of the model. */
export async function generate(http: Http, input: GenerateInput, options: CallOptions): Promise<GenerateAnswer> {
  return answerOf(await http.json({ ...options, ...post(input, 'generate') }));
}

/**
 * Each answer of the model when it comes. The request is repeated only while no answer has begun. An error among the
 * answers ends the stream and is thrown; leaving the loop cancels the model.
 */
export async function* stream(
  http: Http,
  input: GenerateInput,
  options: CallOptions,
): AsyncGenerator<GenerateAnswer, void, void> {
  const { body } = await http.open({ ...options, ...post(input, 'generate_stream') });
  if (body === null) return;
  try {
    for await (const { data } of serverEvents(body)) yield answerOf(parseJson(data));
  } catch (thrown) {
    if (thrown instanceof NereidError || options.signal?.aborted === true) throw thrown;
    throw new NereidError('UNAVAILABLE', 'the stream broke off', { reason: 'stream_broken', cause: thrown });
  }
}

function post({ inputs, id, parameters, ...of }: GenerateInput, call: string) {
  return {
    method: 'POST',
    path: `${modelPath(of.model, of.version)}/${call}`,
    headers: { 'Content-Type': 'application/json' },
    body: jsonText({ ...inputs, id, parameters }),
    repeatable: 'always',
  } as const;
}

function answerOf(value: unknown): GenerateAnswer {
  if (!isObject(value)) throw new NereidError('INTERNAL', "the server's answer is no JSON object");
  const { error, model_name: model } = value;
  // An output may have that name too.
  if (typeof error === 'string' && model === undefined) throw new NereidError('UNKNOWN', error);
  return value as GenerateAnswer;
}

/** The path of a model, or of one of its versions. */
export function modelPath(model: string, version = ''): string {
  const path = `/v2/models/${encodeURIComponent(model)}`;
  return version === '' ? path : `${path}/versions/${encodeURIComponent(version)}`;
}
