import { LIMITS } from '@nereid/config';
import type { AuthClient, GoogleAuth } from 'google-auth-library';
import type { GcsCredentials } from './cloud-credentials.ts';
import type { CloudPlace } from './cloud-place.ts';
import { isNetworkError, type ObjectStore, type StoredObject, type StoreFailure } from './object-store.ts';

const SCOPES = ['https://www.googleapis.com/auth/devstorage.read_only'];
const NO_CREDENTIALS = /could not load the default credentials/i;

/** Google Cloud Storage. Loads the SDK. */
export async function openGcs({ bucket: name }: CloudPlace, credentials: GcsCredentials): Promise<ObjectStore> {
  const { Storage } = await import('@google-cloud/storage');
  const { emulator } = credentials;
  const storage = new Storage({
    ...(emulator === '' ? { authClient: await authClient(credentials.keyFile) } : { apiEndpoint: emulator }),
    projectId: 'none',
    timeout: LIMITS.cloud_idle_timeout_ms,
  });
  const bucket = storage.bucket(name);
  const list = async function* (prefix: string, delimiter?: string) {
    let pageToken: string | undefined;
    do {
      const [files, , answer] = await bucket.getFiles({
        prefix,
        autoPaginate: false,
        ...(delimiter === undefined ? {} : { delimiter }),
        ...(pageToken === undefined ? {} : { pageToken }),
      });
      const { prefixes = [], nextPageToken } = (answer ?? {}) as { prefixes?: string[]; nextPageToken?: string };
      yield { files, prefixes };
      pageToken = nextPageToken;
    } while (pageToken !== undefined);
  };
  return {
    async *pages(prefix) {
      for await (const { files } of list(prefix)) {
        yield files.map(({ name: key, metadata }): StoredObject => {
          return { key, size: Number(metadata.size ?? 0), tag: String(metadata.generation ?? metadata.etag ?? '') };
        });
      }
    },
    async folders(prefix) {
      const names: string[] = [];
      for await (const { prefixes } of list(prefix, '/')) {
        for (const found of prefixes) names.push(found.slice(prefix.length).replace(/\/$/, ''));
      }
      return names;
    },
    // Kept packed, as it was listed. The SDK compares the checksum.
    read: async ({ key, tag }) => bucket.file(key, { generation: tag }).createReadStream({ decompress: false }),
    failure,
    close() {},
  };
}

/** A key file, else what is found here (the machine's service account among it), else nobody: public buckets need none. */
async function authClient(keyFile: string): Promise<AuthClient | GoogleAuth> {
  const { GoogleAuth, PassThroughClient } = await import('google-auth-library');
  const auth = new GoogleAuth({ scopes: SCOPES, ...(keyFile === '' ? {} : { keyFilename: keyFile }) });
  try {
    await auth.getClient();
    return auth;
  } catch (error) {
    if (error instanceof Error && NO_CREDENTIALS.test(error.message)) return new PassThroughClient();
    throw error;
  }
}

function failure(error: unknown): StoreFailure {
  if (!(error instanceof Error)) return 'other';
  if (isNetworkError(error)) return 'away';
  const status = 'code' in error ? Number(error.code) : Number.NaN;
  if (status === 404) return /bucket does not exist/i.test(error.message) ? 'no_bucket' : 'changed';
  if (status === 412) return 'changed';
  if (status === 401 || status === 403) return 'denied';
  return status >= 500 || status === 429 ? 'away' : 'other';
}
