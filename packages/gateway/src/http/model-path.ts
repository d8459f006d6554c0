import type { FastifyRequest } from 'fastify';

/** Model and version ('' where the path names none) of a model's route. */
export function modelOf(request: FastifyRequest): { readonly name: string; readonly version: string } {
  const { model, version = '' } = request.params as { model: string; version?: string };
  return { name: modelName(model), version };
}

/** Of letters and digits. */
const PLAIN_ESCAPE = /%(?=3[0-9]|[46][1-9a-f]|[57][0-9a])/gi;

/**
 * A model's name as a path has it, with what cannot stand there as it is in escapes. Triton decodes none: so those of
 * letters and digits stay (`simp%6Ce` is a model of that name), and all of one where they give no UTF-8.
 */
export function modelName(path: string): string {
  if (!path.includes('%')) return path;
  try {
    return decodeURIComponent(path.replaceAll(PLAIN_ESCAPE, '%25'));
  } catch {
    return path;
  }
}

/** Names that stand in a path as they are, braces being OpenAPI's own. */
const PATH_NAME = /^[\w.~!$&'()*+,;=:@-]+$/;

/** The other way: as `modelName` reads it. */
export function modelPath(name: string): string {
  return PATH_NAME.test(name) ? name : encodeURIComponent(name);
}
