import { modelConfigJson } from '@nereid/config';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { modelMetadata as metadataOf, servedConfig } from '../model-metadata.ts';
import { serverMetadata } from '../server-metadata.ts';
import { sendError, sendJson } from './errors.ts';
import { modelOf } from './model-path.ts';

/** GET /v2. The text never changes while the server runs. */
export function serverMetadataText(name: string, version: string): string {
  return JSON.stringify(serverMetadata(name, version));
}

/** GET /v2/models/{m}[/versions/{v}] */
export function modelMetadata(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  const found = gateway.model(name, version);
  if (found.ok) sendJson(reply, JSON.stringify(metadataOf(found, version)));
  else sendError(reply, found.error);
}

/** GET /v2/models/{m}[/versions/{v}]/config */
export function modelConfig(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { name, version } = modelOf(request);
  const found = gateway.model(name, version);
  if (found.ok) sendJson(reply, modelConfigJson(servedConfig(found)));
  else sendError(reply, found.error);
}
