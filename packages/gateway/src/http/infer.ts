import type { Socket } from 'node:net';
import type { CallMark, ModelLookup } from '@nereid/caller';
import type { ModelSignature } from '@nereid/config';
import {
  type DecodedRequest,
  decodeInferRequest,
  type ErrorInfo,
  errorInfo,
  NereidError,
  type RequestLimits,
} from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { answerOutputs } from '../answer-outputs.ts';
import type { Gateway } from '../gateway.ts';
import { type ForwardsHeader, withForwardedHeaders } from '../header-forward.ts';
import { inferShared } from '../infer-shared.ts';
import type { Result } from '../result.ts';
import type { SharedMemory } from '../shared-memory.ts';
import { traced } from '../traced.ts';
import { bodyCoding, CODINGS_TAKEN } from './content-coding.ts';
import { sendError } from './errors.ts';
import { sendInferResponse } from './infer-answer.ts';
import { inferHeaderLength } from './infer-header-length.ts';
import type { Inflate } from './inflate.ts';
import { modelOf } from './model-path.ts';
import { rawRequest } from './raw-request.ts';
import { type Body, readEncodedBody } from './read-body.ts';
import { type OpenRequestBytes, type RequestBytes, takeBytes } from './request-bytes.ts';
import { REQUEST_ID, unreadRequest, writtenId } from './request-id.ts';

export interface InferContext {
  readonly gateway: Gateway;
  readonly log: Log;
  /** A larger body is refused with 400. */
  readonly inputBytesMax: number;
  /** To the same limit. */
  readonly inflate: Inflate;
  readonly requestLimits: RequestLimits;
  readonly openBytes: OpenRequestBytes;
  readonly sharedMemory: SharedMemory;
  /** The headers that models see as parameters; undefined for none. */
  readonly forwards: ForwardsHeader | undefined;
  readonly clientSignal: (socket: Socket) => AbortSignal;
  /** True once the server is stopping: answers then end their connection. */
  readonly closing: () => boolean;
}

/**
 * POST /v2/models/{m}[/versions/{v}]/infer. Refuses in Triton's order (http_server.cc, HandleInfer):
 * unknown model, decoupled model, compression, size, header length, JSON, tensors.
 */
export function infer(context: InferContext, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  const mark: CallMark = { door: 'http', id: '' };
  const fail = (error: ErrorInfo, id = '') => {
    if (mark.id === '') context.gateway.refused(mark, unreadRequest(name, version, id, request.headers), error);
    reply.header(REQUEST_ID, mark.id);
    context.log.debug({ request_id: id, model: name, err: error }, 'infer failed');
    if (context.closing()) reply.header('Connection', 'close');
    sendError(reply, error);
  };

  const found = servable(context.gateway.model(name, version), request);
  if (!found.ok) {
    if (found.error === COMPRESSED) reply.header('Accept-Encoding', CODINGS_TAKEN);
    fail(found.error);
    return;
  }

  const arrived = found.closesEarly ? begun(context.gateway, found.record.name, request) : undefined;
  const account = context.openBytes(request.raw.socket, reply.raw);
  const jsonLength = request.headers['inference-header-content-length'];
  const take = (body: Body) => {
    arrived?.();
    try {
      const asked = version === '' ? '' : found.version;
      const decoded = decodeInfer(context, request, found.signature, asked, body, account);
      if (!decoded.ok) {
        fail(decoded.error, writtenId(body, jsonLength));
        return;
      }
      const { id } = decoded.value.request;
      const signal = context.clientSignal(request.raw.socket);
      // Never rejects: an infer's failure is an outcome, and an answer without a form becomes an error.
      void inferShared(context.gateway, context.sharedMemory, decoded.value, signal, mark).then((given) => {
        const outcome = answerOutputs(given, decoded.value.outputs, found);
        const error = outcome.ok
          ? sendInferResponse(reply, outcome.response, decoded.value, context.closing, account, mark.id)
          : outcome.error;
        if (error !== null) fail(error, id);
      });
    } catch (thrown) {
      // Called from the socket: whatever is thrown past here would end the process.
      if (!(thrown instanceof NereidError)) context.log.error({ err: thrown, model: name }, 'infer threw');
      fail(errorInfo(thrown), writtenId(body, jsonLength));
    }
  };
  readEncodedBody(request.raw, context.inputBytesMax, context.inflate, take, account);
}

/** Tells the gateway that the request is on its way, until its body is there or its client has gone. */
function begun({ coming }: Gateway, model: string, request: FastifyRequest): () => void {
  const arrived = coming.begin(model);
  request.raw.once('close', arrived);
  return arrived;
}

/** The request with the headers that are passed on, or why not: what the codec finds it throws. */
export function decodeInfer(
  context: Pick<InferContext, 'requestLimits' | 'sharedMemory' | 'forwards'>,
  request: FastifyRequest,
  signature: ModelSignature,
  modelVersion: string,
  body: Body,
  account: RequestBytes,
): Result<DecodedRequest> {
  const { sharedMemory, forwards } = context;
  const read = sharedMemory.bytesRead;
  const decoded = decodeBody(context, request, signature, modelVersion, body);
  if (!decoded.ok) return decoded;
  const shared = sharedMemory.bytesRead - read;
  if (shared > 0 && !takeBytes(account, shared)) return { ok: false, error: account.inFlight.refusal() };
  const { traceparent } = request.headers;
  if (forwards === undefined && traceparent === undefined) return decoded;
  const { value } = decoded;
  const { rawHeaders } = request.raw;
  const { parameters } = value.request;
  const forwarded = forwards === undefined ? parameters : withForwardedHeaders(parameters, rawHeaders, forwards);
  return { ok: true, value: { ...value, request: traced({ ...value.request, parameters: forwarded }, traceparent) } };
}

function decodeBody(
  { requestLimits, sharedMemory }: Pick<InferContext, 'requestLimits' | 'sharedMemory'>,
  request: FastifyRequest,
  signature: ModelSignature,
  modelVersion: string,
  body: Body,
): Result<DecodedRequest> {
  if (!body.ok) return body;
  const header = inferHeaderLength(request.headers['inference-header-content-length'], body.bytes.byteLength);
  if (!header.ok) return header;
  if (header.length === 0) {
    const raw = rawRequest(signature, modelVersion, body.bytes);
    return raw.ok ? { ok: true, value: { request: raw.request, outputs: [], binaryDefault: true } } : raw;
  }
  const value = decodeInferRequest(body.bytes, {
    modelName: signature.name,
    modelVersion,
    headerLength: header.length,
    limits: requestLimits,
    readSharedMemory: sharedMemory.read,
  });
  return { ok: true, value };
}

const DECOUPLED: ErrorInfo = {
  code: 'UNSUPPORTED',
  message: "HTTP end point doesn't support models with decoupled transaction policy",
};

const COMPRESSED: ErrorInfo = { code: 'UNSUPPORTED', message: 'Unsupported compression type' };

/** The model, if it and the request are such that the body is worth reading. */
function servable(found: ModelLookup, request: FastifyRequest): ModelLookup {
  if (!found.ok) return found;
  const error = refusedUnread(found.signature, request);
  return error === undefined ? found : { ok: false, error };
}

/** Why the body is not worth reading. */
function refusedUnread({ decoupled }: ModelSignature, request: FastifyRequest): ErrorInfo | undefined {
  return decoupled ? DECOUPLED : refusedCoding(request);
}

/** The same where any model will do. */
export function refusedCoding({ headers }: FastifyRequest): ErrorInfo | undefined {
  return bodyCoding(headers['content-encoding']) === undefined ? COMPRESSED : undefined;
}
