import { hash } from 'node:crypto';

/** The SHA-256 of data, hex: by which recordings name tensors. */
export function sha256(data: Uint8Array): string {
  return hash('sha256', data);
}
