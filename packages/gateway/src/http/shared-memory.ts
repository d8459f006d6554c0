import { type ErrorInfo, NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { cudaRefusal, type RegionInfo, type SharedMemoryResult } from '../shared-memory.ts';
import { sendError, sendJson } from './errors.ts';
import type { InferContext } from './infer.ts';
import { readBody } from './read-body.ts';

export type SharedMemoryContext = Pick<InferContext, 'sharedMemory' | 'inputBytesMax' | 'openBytes' | 'closing'>;

/** GET /v2/systemsharedmemory[/region/{r}]/status */
export function systemStatus(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const status = context.sharedMemory.status(regionOf(request));
  if (status.ok) sendJson(reply, JSON.stringify(status.value.map(regionJson)));
  else refuse(context, reply, status.error);
}

/** POST /v2/systemsharedmemory/region/{r}/register */
export function systemRegister(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const name = regionOf(request);
  if (name === '') {
    // Without a look at the body: there is no place for it.
    finish(context, reply, context.sharedMemory.register({ name, key: '', offset: 0, byteSize: 0 }));
    return;
  }
  const account = context.openBytes(request.raw.socket, reply.raw);
  readBody(
    request.raw,
    context.inputBytesMax,
    (body) => {
      const asked = body.ok ? readRegistration(name, body.bytes) : body;
      finish(context, reply, asked.ok ? context.sharedMemory.register(asked.value) : asked);
    },
    account,
  );
}

/** POST /v2/systemsharedmemory[/region/{r}]/unregister */
export function systemUnregister(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  finish(context, reply, context.sharedMemory.unregister(regionOf(request)));
}

/** GET /v2/cudasharedmemory[/region/{r}]/status: there is never one. */
export function cudaStatus(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const name = regionOf(request);
  const message = `Unable to find cuda shared memory region: '${name}'`;
  if (name === '') sendJson(reply, '[]');
  else refuse(context, reply, { code: 'NOT_FOUND', message });
}

/** POST /v2/cudasharedmemory/region/{r}/register */
export function cudaRegister(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const name = regionOf(request);
  refuse(context, reply, name === '' ? CUDA_NAME_MISSING : cudaRefusal(name));
}

/** POST /v2/cudasharedmemory[/region/{r}]/unregister: as for any region that is not there. */
export function cudaUnregister(_context: SharedMemoryContext, _request: FastifyRequest, reply: FastifyReply): void {
  sendJson(reply, '');
}

/** '' where the path names none. */
function regionOf(request: FastifyRequest): string {
  const { region = '' } = request.params as { region?: string };
  return region;
}

function regionJson({ name, key, offset, byteSize }: RegionInfo) {
  return { name, key, offset, byte_size: byteSize };
}

function finish(context: SharedMemoryContext, reply: FastifyReply, result: SharedMemoryResult<undefined>): void {
  if (result.ok) sendJson(reply, '');
  else refuse(context, reply, result.error);
}

function refuse({ closing }: SharedMemoryContext, reply: FastifyReply, error: ErrorInfo): void {
  if (closing()) reply.header('Connection', 'close');
  sendError(reply, error);
}

const CUDA_NAME_MISSING: ErrorInfo = {
  code: 'INVALID_ARG',
  message: "'region name' is necessary to register cuda shared memory region",
  field: 'region',
};

/** The body of a registration, with Triton's texts (http_server.cc, HandleSystemSharedMemory). */
function readRegistration(name: string, body: Uint8Array): SharedMemoryResult<RegionInfo> {
  try {
    const members = parseObject(body);
    const key = required(members, 'key');
    if (typeof key !== 'string') throw wrongKind('key', 'non-string as string');
    const byteSize = unsigned('byte_size', required(members, 'byte_size'));
    const offset = unsigned('offset', members.offset ?? 0);
    return { ok: true, value: { name, key, offset, byteSize } };
  } catch (thrown) {
    if (thrown instanceof NereidError) return { ok: false, error: thrown };
    throw thrown;
  }
}

function parseObject(body: Uint8Array): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString());
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new NereidError('INVALID_ARG', `failed to parse the request JSON buffer: ${why}`, { field: 'body', cause });
  }
  // As Triton takes it, what is no object has no members.
  return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
}

function required(members: Readonly<Record<string, unknown>>, member: string): unknown {
  if (Object.hasOwn(members, member)) return members[member];
  const text = `Shared memory register request has no '${member}' field`;
  throw new NereidError('INVALID_ARG', text, { field: member });
}

function unsigned(member: string, value: unknown): number {
  if (Number.isInteger(value) && (value as number) >= 0) return value as number;
  throw wrongKind(member, 'non-unsigned-integer as unsigned-integer');
}

function wrongKind(member: string, words: string): NereidError {
  return new NereidError('INVALID_ARG', `Unable to parse '${member}': attempt to access JSON ${words}`, {
    field: member,
  });
}
