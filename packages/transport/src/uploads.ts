import { createHash } from 'node:crypto';
import { NereidError } from '@nereid/protocol';

/**
 * What clients send in place of a model's files, by the SHA-256 of it in hex. An upload is there until who has put it is
 * done and nothing refers to it any more.
 */
export interface Uploads {
  /** Its name. Throws UNAVAILABLE where there is no room, or Redis does not answer. */
  put(bytes: Uint8Array): Promise<string>;
  /** Whoever put these needs them no longer for that. Never rejects. */
  done(names: readonly string[]): Promise<void>;
  /** Something refers to them now, and goes on to. Called again every few seconds as long as that is so. */
  keep(names: readonly string[]): Promise<void>;
  /** Nothing refers to them any more. */
  release(names: readonly string[]): Promise<void>;
  /** Undefined where it is not there (any more). */
  get(name: string): Promise<Uint8Array | undefined>;
}

export function uploadName(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export function uploadsFull(bytes: number, bytesMax: number): NereidError {
  const text = `${bytes} bytes more do not go into the uploads of this server, which take ${bytesMax} together (uploads_bytes_max in docs/limits.md)`;
  return new NereidError('UNAVAILABLE', text);
}
