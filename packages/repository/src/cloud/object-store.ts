import type { Readable } from 'node:stream';

/** What a listing says of one object. */
export interface StoredObject {
  readonly key: string;
  /** Bytes. */
  readonly size: number;
  /** Another one after each write: its ETag or generation. */
  readonly tag: string;
  /** It stands for a folder. */
  readonly isFolder?: boolean;
  /** Of the contents, in base64, where it is told. */
  readonly md5?: string;
}

/** What a failed call of a store means, whatever the store's own words. */
export type StoreFailure =
  | 'no_bucket'
  | 'denied'
  | 'no_credentials'
  /** The object is not there any more as it was listed. */
  | 'changed'
  /** It cannot be reached, or not now. */
  | 'away'
  | 'other';

/** One bucket, by its cloud's SDK, which also tries again what fails for a moment. */
export interface ObjectStore {
  /** The objects whose keys begin with `prefix`, in pages. Throws the SDK's errors, as all calls. */
  pages(prefix: string): AsyncIterable<readonly StoredObject[]>;
  /** What stands between `prefix` and the next slash of keys. */
  folders(prefix: string): Promise<readonly string[]>;
  /** The contents, of exactly what was listed. */
  read(object: StoredObject): Promise<Readable>;
  /** What an error thrown by these calls, or by the stream of `read`, means. */
  failure(error: unknown): StoreFailure;
  close(): void;
}

/** Errors of sockets and names, by `code`, of any SDK. */
const NETWORK_CODES: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'ERR_STREAM_PREMATURE_CLOSE',
]);

/** Whether an error, or what caused it, is one of the network. */
export function isNetworkError(error: unknown): boolean {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 8; cause = cause.cause, depth++) {
    if ('code' in cause && NETWORK_CODES.has(cause.code)) return true;
    if (cause instanceof AggregateError && cause.errors.some(isNetworkError)) return true;
  }
  return false;
}
