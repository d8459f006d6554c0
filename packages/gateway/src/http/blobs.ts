/** Blobs: tensors that are put for jobs to come, and those that results of jobs name. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { sendJson } from './errors.ts';
import { refusedCoding } from './infer.ts';
import { answer, type JobRouteContext, jobsOf, refuse } from './jobs-answer.ts';
import { blobTtlS } from './jobs-headers.ts';
import { type Body, readEncodedBody } from './read-body.ts';
import { addBytes } from './request-bytes.ts';

/** POST /v2/blobs: 201 with the reference once Redis has the body, raw as a tensor is in the binary form. */
export function putBlob(context: JobRouteContext, request: FastifyRequest, reply: FastifyReply): void {
  const refusal = refusedCoding(request);
  if (refusal !== undefined) {
    refuse(context, reply, refusal);
    return;
  }
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) => {
    if (!body.ok) {
      refuse(context, reply, body.error, body.tooLarge ? 413 : undefined);
      return;
    }
    const { bytes } = body;
    answer(context, reply, async () => {
      const { ref, expiresMs } = await jobsOf(context).putBlob(bytes, blobTtlS(request.headers));
      reply.code(201).header('Location', `/v2/blobs/${ref}`);
      const expires = new Date(expiresMs).toISOString();
      sendJson(reply, JSON.stringify({ ref, byte_size: bytes.byteLength, expires_at: expires }));
    });
  };
  readEncodedBody(request.raw, context.inputBytesMax, context.inflate, take, account);
}

/** GET /v2/blobs/{ref}: its bytes as they were put. */
export function getBlob(context: JobRouteContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { ref } = request.params as { ref: string };
    const bytes = await jobsOf(context).readBlob(ref);
    if (bytes === undefined) {
      const message = `blob '${ref}' is not there: its time is over, or it was never put`;
      refuse(context, reply, { code: 'NOT_FOUND', message, field: 'ref' });
      return;
    }
    addBytes(context.openBytes(request.raw.socket, reply.raw), bytes.byteLength);
    if (context.closing()) reply.header('Connection', 'close');
    reply.header('Content-Type', 'application/octet-stream').send(bytes);
  });
}
