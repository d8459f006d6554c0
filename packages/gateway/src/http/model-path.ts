import type { FastifyRequest } from 'fastify';

/** Model and version ('' where the path names none) of a model's route. */
export function modelOf(request: FastifyRequest): { readonly name: string; readonly version: string } {
  const { model, version = '' } = request.params as { model: string; version?: string };
  return { name: model, version };
}
