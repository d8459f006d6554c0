/**
 * A path that the router leaves as it was sent, so that each route decodes what it has to: an escaped slash is part of a
 * name, and ids of jobs have escapes of their own.
 */
export function rawPath(url: string): string {
  return url.includes('%') ? url.replaceAll('%', '%25') : url;
}
