import { type ErrorInfo, type JsonMember, NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Result } from '../result.ts';
import { cudaRefusal, cudaUnknown, type RegionInfo } from '../shared-memory.ts';
import { sendJson } from './errors.ts';
import type { InferContext } from './infer.ts';
import { type JsonBodyContext, type Members, refuse, withMembers } from './json-body.ts';
import { textValue, unsignedValue } from './json-member.ts';

export type SharedMemoryContext = JsonBodyContext & Pick<InferContext, 'sharedMemory'>;

/** GET /v2/systemsharedmemory[/region/{r}]/status */
export function systemStatus(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const status = context.sharedMemory.status(regionOf(request));
  if (status.ok) sendJson(reply, JSON.stringify(status.value.map(regionJson)));
  else refuse(context, reply, status.error);
}

/** POST /v2/systemsharedmemory/region/{r}/register, with Triton's texts (http_server.cc, HandleSystemSharedMemory). */
export function systemRegister(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const name = regionOf(request);
  if (name === '') {
    // Without a look at the body: there is no place for it.
    finish(context, reply, context.sharedMemory.register({ name, key: '', offset: 0, byteSize: 0 }));
    return;
  }
  withMembers(context, request, reply, false, (members) => {
    const key = textValue(required(members, 'key'), 'key');
    const byteSize = Number(unsignedValue(required(members, 'byte_size'), 'byte_size'));
    const offset = members.has('offset') ? Number(unsignedValue(required(members, 'offset'), 'offset')) : 0;
    finish(context, reply, context.sharedMemory.register({ name, key, offset, byteSize }));
  });
}

/** POST /v2/systemsharedmemory[/region/{r}]/unregister */
export function systemUnregister(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  finish(context, reply, context.sharedMemory.unregister(regionOf(request)));
}

/** GET /v2/cudasharedmemory[/region/{r}]/status: there is never one. */
export function cudaStatus(context: SharedMemoryContext, request: FastifyRequest, reply: FastifyReply): void {
  const name = regionOf(request);
  if (name === '') sendJson(reply, '[]');
  else refuse(context, reply, cudaUnknown(name));
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

function finish(context: SharedMemoryContext, reply: FastifyReply, result: Result<undefined>): void {
  if (result.ok) sendJson(reply, '');
  else refuse(context, reply, result.error);
}

const CUDA_NAME_MISSING: ErrorInfo = {
  code: 'INVALID_ARG',
  message: "'region name' is necessary to register cuda shared memory region",
  field: 'region',
};

function required(members: Members, member: string): JsonMember {
  const value = members.get(member);
  if (value !== undefined) return value;
  const text = `Shared memory register request has no '${member}' field`;
  throw new NereidError('INVALID_ARG', text, { field: member });
}
