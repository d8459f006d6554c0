/** A line of a batch: the request that it asks for, and the text of its result. */
import {
  blobRefs,
  type ErrorInfo,
  httpStatus,
  type InferRequest,
  type JobBlobs,
  type JsonObject,
} from '@nereid/protocol';
import type { BulkRecord, LineResult } from '@nereid/transport';
import { type ReadJob, readJob } from './job-request.ts';
import type { OwnedModel } from './owned-model.ts';

export type ReadLine = ReadJob & { readonly customId: unknown };

const CUSTOM_ID_LENGTH_MAX = 512;
/** A longer result would hold up Redis, and whoever reads it. */
const RESULT_BYTES_MAX = 16_777_216;

export type ParsedLine =
  | { readonly ok: true; readonly given: unknown /** Blobs that its inputs name. */; readonly refs: readonly string[] }
  | { readonly ok: false; readonly read: ReadLine };

export function parseLine(text: string): ParsedLine {
  try {
    const given: unknown = JSON.parse(text);
    const body = isObject(given) ? given.body : undefined;
    return { ok: true, given, refs: isObject(body) ? blobRefs(body.inputs) : [] };
  } catch (thrown) {
    return { ok: false, read: refused(undefined, `the line is no JSON: ${(thrown as Error).message}`) };
  }
}

/** What the line asks for, by the rules of a job's data; what is wrong with it is told with its id, where it has one. */
export function readLine(model: OwnedModel, given: unknown, blobs: JobBlobs): ReadLine {
  if (!isObject(given)) return refused(undefined, 'the line must be a JSON object {custom_id, body}');
  const { custom_id: customId, body, method, url } = given;
  if (customId !== undefined && (typeof customId !== 'string' || customId.length > CUSTOM_ID_LENGTH_MAX))
    return refused(undefined, `custom_id must be a string of up to ${CUSTOM_ID_LENGTH_MAX} characters`, 'custom_id');
  if (method !== undefined && method !== 'POST')
    return refused(customId, `method must be POST or left out, got: ${JSON.stringify(method)}`, 'method');
  if (url !== undefined && !isInfer(url, model.name))
    return refused(customId, `url must be /v2/models/${encodeURIComponent(model.name)}/infer or left out`, 'url');
  if (!isObject(body)) return refused(customId, 'body must be an infer request as a JSON object', 'body');
  return { ...readJob(model, body, blobs), customId };
}

/** The request of a line of that batch: nobody waits for it. */
export function lineRequest(request: InferRequest, { version }: BulkRecord): InferRequest {
  const modelVersion = request.modelVersion === '' ? version : request.modelVersion;
  return { ...request, modelVersion, background: true };
}

/** `bodies`: of a decoupled model all its answers, of any other the one. */
export function lineDone(
  line: number,
  customId: unknown,
  bodies: readonly JsonObject[],
  decoupled: boolean,
): LineResult {
  const answer = decoupled ? { status_code: 200, bodies } : { status_code: 200, body: bodies[0] };
  const text = JSON.stringify({ line, custom_id: customId, response: answer, error: null });
  if (Buffer.byteLength(text) <= RESULT_BYTES_MAX) return { line, ok: true, text };
  const message = `its answer takes more than ${RESULT_BYTES_MAX} bytes; ask for fewer outputs, or send it as a job`;
  return lineFailed(line, customId, { code: 'UNSUPPORTED', message });
}

export function lineFailed(line: number, customId: unknown, { code, message, field }: ErrorInfo): LineResult {
  const error = { status_code: httpStatus(code, true), code, message, field };
  return { line, ok: false, text: JSON.stringify({ line, custom_id: customId, response: null, error }) };
}

function refused(customId: unknown, message: string, field?: string): ReadLine {
  return { ok: false, customId, error: { code: 'INVALID_ARG', message, ...(field === undefined ? {} : { field }) } };
}

/** As OpenAI's form has it; its host and version are of no account. */
function isInfer(url: unknown, model: string): boolean {
  if (typeof url !== 'string') return false;
  const [path = ''] = url.split('?', 1);
  return path.endsWith(`/v2/models/${encodeURIComponent(model)}/infer`);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
