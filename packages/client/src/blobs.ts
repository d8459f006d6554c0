import type { CallOptions, Http } from './http.ts';
import { idInPath } from './job.ts';
import { objectOf } from './json.ts';

/** Names a tensor that the server keeps, in place of its bytes in a job. */
export interface BlobRef {
  readonly ref: string;
  readonly byte_size: number;
}

export interface PutOptions extends CallOptions {
  /** How long it is kept, in seconds. */
  readonly ttlS?: number;
}

export interface Blobs {
  /** Puts a tensor in its binary form. */
  put(bytes: Uint8Array, options?: PutOptions): Promise<BlobRef>;
  /** Throws NOT_FOUND where it is not kept any more. */
  get(ref: string, options?: CallOptions): Promise<Uint8Array<ArrayBuffer>>;
}

export function createBlobs(http: Http): Blobs {
  return {
    async put(bytes, { ttlS, ...options } = {}) {
      const answer = await http.json({
        ...options,
        method: 'POST',
        path: '/v2/blobs',
        headers: {
          'Content-Type': 'application/octet-stream',
          ...(ttlS === undefined ? {} : { 'Nereid-Ttl-S': String(ttlS) }),
        },
        body: bytes as Uint8Array<ArrayBuffer>,
        // A second one is forgotten with its time.
        repeatable: 'always',
      });
      const { ref, byte_size } = objectOf(answer, 'blob');
      return { ref: String(ref), byte_size: Number(byte_size) };
    },
    async get(ref, options = {}) {
      const path = `/v2/blobs/${idInPath(ref)}`;
      return (await http.call({ ...options, method: 'GET', path, repeatable: 'always' })).body;
    },
  };
}
