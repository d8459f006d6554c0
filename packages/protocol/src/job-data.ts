/**
 * The data of a job: a v2 infer request as a JSON value, for producers in any language. It is turned
 * into the v2 binary form and read by the same decoder as an HTTP body, so mistakes have the same
 * texts on both ways.
 */
import { NereidError } from './error.ts';
import type { InferRequest, ParameterValue } from './infer.ts';
import { type JobBlobs, namedTensor } from './job-blobs.ts';
import { isJsonObject, type JsonObject, jsonText, parametersText, typedParameters } from './job-json.ts';
import { plainJobRequest } from './job-plain.ts';
import { type JobStep, jobStep } from './job-step.ts';
import { base64Tensor, tensorsText } from './job-tensors.ts';
import type { RequestLimits } from './protocol-limits.ts';
import type { Tensor } from './tensor.ts';
import { traceContext } from './trace-context.ts';
import { wrongKind } from './v2-member.ts';
import type { RequestedOutput } from './v2-outputs.ts';
import { type DecodedRequest, decodeInferRequest } from './v2-request.ts';
import { webhookUrl } from './webhook-url.ts';

/**
 * Form of the outputs in the return value. auto: JSON to 16 KiB in all, b64 to 256 KiB, else blobs. binary, which HTTP
 * submissions use: as auto, but never JSON.
 */
export type JobRespond = 'auto' | 'json' | 'b64' | 'blob' | 'binary';

export interface DecodedJob extends DecodedRequest {
  readonly respond: JobRespond;
  /** Milliseconds from the job's creation until it is too late to begin, 0 for none. */
  readonly deadlineMs: number;
  /** How long its result is to be kept, from its end; undefined where the producer did not say. */
  readonly resultTtlS: number | undefined;
  /** Which step of its sequence it is, from 0; -1 where its producer does not say. */
  readonly sequenceIndex: number;
  /** By which it can be found in lists. */
  readonly tags: readonly string[];
}

/** What a job's data say beside the request. */
export interface JobSettings {
  readonly respond: JobRespond;
  readonly deadlineMs: number;
  readonly resultTtlS: number;
  /** -1 for none. */
  readonly sequenceIndex: number;
  /** Who is told of the job's end; nobody without it. */
  readonly webhook?: string | undefined;
  readonly tags?: readonly string[];
}

const JOB_DATA_VERSION = 1;
/** A result is kept so long at most: 30 days. */
export const RESULT_TTL_S_MAX = 2_592_000;
const DIGITS = /^[0-9]{1,20}$/;
const TAGS_MAX = 16;
const TAG_CHARACTERS_MAX = 64;
/** A header has several tags between commas. */
const TAG = new RegExp(`^[^,\\p{Cc}]{1,${TAG_CHARACTERS_MAX}}$`, 'u');

interface JobDataOptions {
  readonly modelName: string;
  readonly limits: RequestLimits;
  readonly blobs?: JobBlobs;
}

/**
 * Reads job data; `blobs` are those that its inputs name. Throws INVALID_ARG with the text that HTTP gives, and
 * NOT_FOUND for a blob that is not there.
 */
export function decodeJobData(data: unknown, options: JobDataOptions): DecodedJob {
  const members = isJsonObject(data) ? data : {};
  checkVersion(members.v);
  const plain = plainJobRequest(members, options);
  const decoded = plain ?? wholeRequest(members, options);
  const { request, index } = plain === undefined ? jobStep(decoded.request, members.sequence_index) : noStep(plain);
  webhookUrl(members.webhook, 'webhook');
  // One literal: with parts spread into it, it takes ten times as long.
  return {
    outputs: decoded.outputs,
    binaryDefault: decoded.binaryDefault,
    request: withTrace(request, members.traceparent),
    sequenceIndex: index,
    respond: respondOf(members.respond),
    deadlineMs: positiveInteger(members, 'deadline_ms') ?? 0,
    resultTtlS: positiveInteger(members, 'result_ttl_s', RESULT_TTL_S_MAX),
    tags: jobTags(members.tags ?? [], 'tags'),
  };
}

/** By the decoder of HTTP bodies. */
function wholeRequest(members: JsonObject, { modelName, limits, blobs }: JobDataOptions): DecodedRequest {
  const depthMax = limits.json_depth_max;
  const { text, binary } = tensorsText(members.inputs, depthMax, blobs);
  const parts = [
    members.id === undefined ? [] : [`"id":${jsonText(members.id, depthMax)}`],
    members.parameters === undefined ? [] : [`"parameters":${parametersText(members.parameters, depthMax)}`],
    members.inputs === undefined ? [] : [`"inputs":${text}`],
    members.outputs === undefined ? [] : [`"outputs":${jsonText(members.outputs, depthMax)}`],
  ].flat();
  const document = Buffer.from(`{${parts.join(',')}}`);
  return decodeInferRequest(binary.length === 0 ? document : Buffer.concat([document, ...binary]), {
    modelName,
    modelVersion: versionOf(members.model_version),
    headerLength: document.byteLength,
    limits,
  });
}

function noStep({ request }: DecodedRequest): JobStep {
  return { request, index: -1 };
}

/** Job data that read back as exactly this request. `refOf`: the blob that holds an input; undefined for b64. */
export function encodeJobData(
  { request, outputs, binaryDefault }: DecodedRequest,
  settings: JobSettings,
  refOf: (input: Tensor) => string | undefined = () => undefined,
): JsonObject {
  return {
    v: JOB_DATA_VERSION,
    ...(request.id === '' ? {} : { id: request.id }),
    ...(request.modelVersion === '' ? {} : { model_version: request.modelVersion }),
    parameters: typedParameters(allParameters(request, binaryDefault)),
    inputs: request.inputs.map((input) => {
      const ref = refOf(input);
      return ref === undefined ? base64Tensor(input) : namedTensor(input, ref);
    }),
    ...(outputs.length === 0 ? {} : { outputs: outputs.map(outputJson) }),
    respond: settings.respond,
    ...(settings.deadlineMs === 0 ? {} : { deadline_ms: settings.deadlineMs }),
    result_ttl_s: settings.resultTtlS,
    ...((settings.tags ?? []).length === 0 ? {} : { tags: settings.tags }),
    ...(settings.sequenceIndex < 0 ? {} : { sequence_index: settings.sequenceIndex }),
    ...(request.trace === undefined ? {} : { traceparent: request.trace }),
    ...(settings.webhook === undefined ? {} : { webhook: settings.webhook }),
  };
}

/** A job's tags. Throws INVALID_ARG naming the field where they are none, too many or too long. */
export function jobTags(value: unknown, field: string): readonly string[] {
  const isTag = (tag: unknown) => typeof tag === 'string' && TAG.test(tag);
  if (Array.isArray(value) && value.length <= TAGS_MAX && value.every(isTag)) return value;
  throw new NereidError(
    'INVALID_ARG',
    `${field}: up to ${TAGS_MAX} texts of 1 to ${TAG_CHARACTERS_MAX} characters, none of them a comma or a control character`,
    { field },
  );
}

/** Whether the job's data say that it was cancelled: whoever takes it is to fail it at once. */
export function isJobCancelled(data: unknown): boolean {
  return isJsonObject(data) && data.cancelled === true;
}

/** A trace context that is malformed is none, as at the doors. */
function withTrace(request: InferRequest, traceparent: unknown): InferRequest {
  const trace = typeof traceparent === 'string' ? traceContext(traceparent) : undefined;
  return trace === undefined ? request : { ...request, trace };
}

function outputJson({ name, binary, classification }: RequestedOutput): JsonObject {
  return { name, parameters: { binary_data: binary, ...(classification === 0 ? {} : { classification }) } };
}

function allParameters(request: InferRequest, binaryDefault: boolean): Readonly<Record<string, ParameterValue>> {
  const { correlationId, sequenceStart, sequenceEnd } = request;
  return {
    ...request.parameters,
    ...(correlationId === 0n || correlationId === '' ? {} : { sequence_id: correlationId }),
    ...(sequenceStart ? { sequence_start: true } : {}),
    ...(sequenceEnd ? { sequence_end: true } : {}),
    ...(request.priority === 0n ? {} : { priority: request.priority }),
    ...(request.timeoutUs === 0n ? {} : { timeout: request.timeoutUs }),
    ...(request.journal === undefined ? {} : { nereid_journal: request.journal }),
    ...(binaryDefault ? { binary_data_output: true } : {}),
  };
}

function checkVersion(version: unknown): void {
  if (version === undefined || version === JOB_DATA_VERSION) return;
  throw new NereidError('INVALID_ARG', `job data of version ${JSON.stringify(version)}: this server reads version 1`, {
    field: 'v',
  });
}

function versionOf(version: unknown): string {
  if (version === undefined || version === '') return '';
  const text = typeof version === 'number' ? String(version) : version;
  if (typeof text === 'string' && DIGITS.test(text)) return text;
  throw wrongKind('model_version', 'model_version', 'JSON non-version as version: give its digits');
}

function respondOf(respond: unknown): JobRespond {
  switch (respond) {
    case undefined:
      return 'auto';
    case 'auto':
    case 'json':
    case 'b64':
    case 'blob':
    case 'binary':
      return respond;
    default: {
      const text = `respond must be 'auto', 'json', 'b64', 'blob' or 'binary', got: ${JSON.stringify(respond)}`;
      throw new NereidError('INVALID_ARG', text, { field: 'respond' });
    }
  }
}

function positiveInteger(members: JsonObject, name: string, most?: number): number | undefined {
  const value = members[name];
  if (value === undefined) return undefined;
  if (isPositiveInteger(value) && value <= (most ?? value)) return value;
  const range = most === undefined ? 'from 1' : `from 1 to ${most}`;
  throw new NereidError('INVALID_ARG', `${name} must be an integer ${range}, got: ${JSON.stringify(value)}`, {
    field: name,
  });
}

function isPositiveInteger(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
