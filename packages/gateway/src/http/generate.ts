import type { CallMark, StreamedAnswer } from '@nereid/caller';
import type { ModelSignature } from '@nereid/config';
import { decodeGenerateRequest, type ErrorInfo, errorInfo, type GenerateInput, NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { metadataShape } from '../model-metadata.ts';
import { traced } from '../traced.ts';
import { bodyCoding } from './content-coding.ts';
import { sendError } from './errors.ts';
import type { GenerateReply } from './generate-answer.ts';
import { sendEvents } from './generate-events.ts';
import { sendOnlyAnswer } from './generate-only.ts';
import type { InferContext } from './infer.ts';
import { modelOf } from './model-path.ts';
import { type Body, readBody } from './read-body.ts';
import { REQUEST_ID, unreadRequest } from './request-id.ts';

/** POST /v2/models/{m}[/versions/{v}]/generate: the one answer of the model, as flat JSON. */
export function generate(context: InferContext, request: FastifyRequest, reply: FastifyReply): void {
  answerGenerate(context, request, reply, sendOnlyAnswer);
}

/** POST /v2/models/{m}[/versions/{v}]/generate_stream: each answer of the model as a server-sent event. */
export function generateStream(context: InferContext, request: FastifyRequest, reply: FastifyReply): void {
  answerGenerate(context, request, reply, sendEvents);
}

type SendAnswers = (to: GenerateReply, answers: AsyncIterableIterator<StreamedAnswer>) => Promise<void>;

/**
 * Refuses in Triton's order (http_server.cc, HandleGenerate): unknown model, compression, size, JSON,
 * tensors; what is refused here has its own status, as for infer.
 */
function answerGenerate(
  context: InferContext,
  request: FastifyRequest,
  reply: FastifyReply,
  sendAnswers: SendAnswers,
): void {
  const { gateway, log, closing } = context;
  const { name, version } = modelOf(request);
  const mark: CallMark = { door: 'http', id: '' };
  const fail = (error: ErrorInfo, status?: number) => {
    if (mark.id === '') gateway.refused(mark, unreadRequest(name, version, '', request.headers), error);
    reply.header(REQUEST_ID, mark.id);
    log.debug({ model: name, err: error }, 'generate failed');
    if (closing()) reply.header('Connection', 'close');
    sendError(reply, error, status);
  };
  const failed = (thrown: unknown) => {
    if (!(thrown instanceof NereidError)) log.error({ err: thrown, model: name }, 'generate threw');
    if (reply.sent) reply.raw.destroy();
    else fail(errorInfo(thrown));
  };

  const found = gateway.model(name, version);
  if (!found.ok) {
    fail(found.error);
    return;
  }
  if (bodyCoding(request.headers['content-encoding']) !== 'identity') {
    fail(COMPRESSED);
    return;
  }
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    try {
      if (!body.ok) {
        fail(body.error);
        return;
      }
      const plain = decodeGenerateRequest(body.bytes, {
        modelName: name,
        modelVersion: version === '' ? '' : found.version,
        inputs: generateInputs(found.signature),
        limits: context.requestLimits,
      });
      const decoded = traced(plain, request.headers.traceparent);
      const refused = gateway.refusal(decoded);
      if (refused !== null) {
        fail(refused);
        return;
      }
      const signal = context.clientSignal(request.raw.socket);
      const answers = gateway.inferStream(decoded, signal, 0, account.inFlight, mark);
      reply.raw.setHeader(REQUEST_ID, mark.id);
      sendAnswers({ reply, account, signal, closing, fail }, answers).catch(failed);
    } catch (thrown) {
      // Called from the socket: whatever is thrown past here would end the process.
      failed(thrown);
    }
  };
  readBody(request.raw, context.inputBytesMax, take, account);
}

const COMPRESSED: ErrorInfo = {
  code: 'INVALID_ARG',
  message: "Unsupported content-encoding, only 'identity' is supported.",
};

/** The inputs as the model's metadata tell them. */
function generateInputs(signature: ModelSignature): readonly GenerateInput[] {
  return signature.inputs.map(({ name, datatype, dims }) => {
    return { name, datatype, shape: metadataShape(signature, dims) };
  });
}
