import { encodeName } from './encode-name.ts';

/** A recording's id, which fits into a path as it is: `<model>~<session>`, the colon of the session left. */
export function recordingId(model: string, session: string): string {
  return `${encodeName(model)}~${encodeName(session).replaceAll('%3A', ':')}`;
}

/** Model and session of a recording's id; undefined where it is none. */
export function parseRecordingId(id: string): { readonly model: string; readonly session: string } | undefined {
  // Some encode the tilde and the colon in a path, which changes nothing.
  const [model = '', session = '', more] = id.split(id.includes('~') ? '~' : /%7e/i);
  if (model === '' || session === '' || more !== undefined) return undefined;
  try {
    return { model: decodeURIComponent(model), session: decodeURIComponent(session) };
  } catch {
    return undefined;
  }
}
