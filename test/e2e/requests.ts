/** One tensor of a JSON request or response of the v2 protocol. */
export interface JsonTensor {
  readonly name: string;
  readonly shape: readonly number[];
  readonly datatype: string;
  readonly data?: readonly unknown[];
  readonly parameters?: Record<string, unknown>;
}

/** What a server answered: `outputs` of a success, `error` of a failure. */
export interface Answer {
  readonly status: number;
  readonly outputs: ReadonlyMap<string, JsonTensor>;
  readonly error: string | undefined;
}

const ROW_SIZE = 16;

/** A valid JSON request for the model `simple`: INPUT0 counts from 0, INPUT1 is ones. */
export function simpleRequest(): string {
  const tensor = (name: string, value: (index: number) => number): JsonTensor => ({
    name,
    shape: [1, ROW_SIZE],
    datatype: 'INT32',
    data: Array.from({ length: ROW_SIZE }, (_, index) => value(index)),
  });
  return JSON.stringify({ inputs: [tensor('INPUT0', (index) => index), tensor('INPUT1', () => 1)] });
}

/** What `simple` must answer to `simpleRequest`. */
export const SIMPLE_SUM: readonly number[] = Array.from({ length: ROW_SIZE }, (_, index) => index + 1);

/** A JSON request for a model with one input. */
export function oneInput(name: string, datatype: string, shape: readonly number[], data: readonly unknown[]): string {
  return JSON.stringify({ inputs: [{ name, shape, datatype, data }] });
}

/** Posts a body to a model's infer route. */
export async function infer(
  http: string,
  model: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${http}/v2/models/${model}/infer`, { method: 'POST', body, headers });
  return readAnswer(response.status, await response.text());
}

export function readAnswer(status: number, text: string): Answer {
  const parsed: { outputs?: JsonTensor[]; error?: string } = JSON.parse(text);
  const outputs = new Map((parsed.outputs ?? []).map((output) => [output.name, output]));
  return { status, outputs, error: parsed.error };
}
