import { type ErrorInfo, NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { CODE_UPLOAD } from '../code-upload.ts';
import { isFileParameter, type LoadParameter } from '../load-override.ts';
import { REPOSITORY_NAME_REFUSED } from '../repository.ts';
import type { Result } from '../result.ts';
import { adminKeyOf, isLocal } from './admin-calls.ts';
import { sendError, sendJson } from './errors.ts';
import { type Members, refuse, withMembers } from './json-body.ts';
import { flagValue, textValue } from './json-member.ts';
import { modelOf } from './model-path.ts';
import type { ServicesContext } from './services-context.ts';

/** POST /v2/repository[/{repository}]/index: the repository's name says nothing, as in Triton. */
export function repositoryIndex(context: ServicesContext, request: FastifyRequest, reply: FastifyReply): void {
  withMembers(context, request, reply, true, async (members) => {
    const ready = members.has('ready') ? members.get('ready') : false;
    if (typeof ready !== 'boolean') {
      throw new NereidError('INVALID_ARG', "Invalid value for 'ready': expected a boolean", { field: 'ready' });
    }
    const index = await context.services.repository.index(ready);
    if (index.ok) sendJson(reply, JSON.stringify(index.value));
    else refuse(context, reply, index.error);
  });
}

/** POST /v2/repository[/{repository}]/models/{m}/load */
export function loadModel(context: ServicesContext, request: FastifyRequest, reply: FastifyReply): void {
  if (namesRepository(context, request, reply)) return;
  withMembers(context, request, reply, true, async (members) => {
    const parameters = loadParameters(parametersOf(members));
    const caller = { isLocal: context.onLoopback && isLocal(request), key: adminKeyOf(request.headers) };
    sendDone(context, reply, await context.services.repository.load(modelOf(request).name, parameters, caller));
  });
}

/** POST /v2/repository[/{repository}]/models/{m}/unload */
export function unloadModel(context: ServicesContext, request: FastifyRequest, reply: FastifyReply): void {
  if (namesRepository(context, request, reply)) return;
  withMembers(context, request, reply, true, async (members) => {
    const given = parametersOf(members).get('unload_dependents') ?? false;
    const dependents = flagValue(given, 'unload_dependents', 'parameters.unload_dependents');
    sendDone(context, reply, await context.services.repository.unload(modelOf(request).name, dependents));
  });
}

const FORBIDDEN_STATUS = 403;
const EMPTY = Buffer.alloc(0);

/** 200 without a body, or why not. */
function sendDone(context: ServicesContext, reply: FastifyReply, result: Result<undefined>): void {
  if (result.ok) reply.header('Content-Type', 'application/json').send(EMPTY);
  else if (isForbidden(result.error)) sendError(reply, result.error, FORBIDDEN_STATUS);
  else refuse(context, reply, result.error);
}

function isForbidden({ reason }: ErrorInfo): boolean {
  return reason === CODE_UPLOAD;
}

function namesRepository(context: ServicesContext, request: FastifyRequest, reply: FastifyReply): boolean {
  const { repository } = request.params as { readonly repository?: string };
  if (repository === undefined) return false;
  refuse(context, reply, REPOSITORY_NAME_REFUSED);
  return true;
}

function parametersOf(members: Members): Members {
  const parameters = members.get('parameters');
  if (parameters === undefined) return new Map();
  if (parameters instanceof Map) return parameters;
  throw new NereidError('INVALID_ARG', 'attempt to get members for non-object', { field: 'parameters' });
}

function loadParameters(parameters: Members): readonly LoadParameter[] {
  return [...parameters].map(([name, value]) => {
    const text = textValue(value, name, `parameters.${name}`);
    return { name, value: isFileParameter(name) ? fileBytes(name, text) : text };
  });
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

function fileBytes(name: string, text: string): Uint8Array {
  // In lines, too, as some encoders write it.
  const packed = text.replaceAll(/\s/g, '');
  if (BASE64.test(packed) && packed.length % 4 === 0) return Buffer.from(packed, 'base64');
  throw new NereidError('INVALID_ARG', `parameter '${name}' must be the file's content in base64`, {
    field: `parameters.${name}`,
  });
}
