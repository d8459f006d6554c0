import type { Readable } from 'node:stream';
import type { TokenCredential } from '@azure/identity';
import { LIMITS } from '@nereid/config';
import type { AzureCredentials } from './cloud-credentials.ts';
import type { CloudPlace } from './cloud-place.ts';
import { isNetworkError, type ObjectStore, type StoredObject, type StoreFailure } from './object-store.ts';

const PAGE = { maxPageSize: 5_000 };

const FAILURES: Readonly<Record<string, StoreFailure>> = {
  ContainerNotFound: 'no_bucket',
  ContainerBeingDeleted: 'no_bucket',
  BlobNotFound: 'changed',
  ConditionNotMet: 'changed',
  AuthenticationFailed: 'denied',
  AuthorizationFailure: 'denied',
  AuthorizationPermissionMismatch: 'denied',
  NoAuthenticationInformation: 'no_credentials',
  PublicAccessNotPermitted: 'no_credentials',
};

/** Azure Blob Storage. Loads the SDK, and the one for identities where these are asked for. */
export async function openAzure(place: CloudPlace, credentials: AzureCredentials): Promise<ObjectStore> {
  const { AnonymousCredential, BlobServiceClient, StorageSharedKeyCredential } = await import('@azure/storage-blob');
  const account = credentials.account === '' ? (place.account.split('.')[0] ?? '') : credentials.account;
  const credential =
    (await identity(credentials)) ??
    (credentials.key === '' ? new AnonymousCredential() : new StorageSharedKeyCredential(account, credentials.key));
  const service = new BlobServiceClient(serviceUrl(place), credential, {
    retryOptions: { tryTimeoutInMs: LIMITS.cloud_idle_timeout_ms },
  });
  const container = service.getContainerClient(place.bucket);
  return {
    async *pages(prefix) {
      for await (const { segment } of container.listBlobsFlat({ prefix, includeMetadata: true }).byPage(PAGE)) {
        yield segment.blobItems.map(({ name, properties, metadata }): StoredObject => {
          const md5 = properties.contentMD5;
          return {
            key: name,
            size: properties.contentLength ?? 0,
            tag: properties.etag,
            // So are folders told where the account has a hierarchical namespace.
            ...(metadata?.hdi_isfolder === 'true' ? { isFolder: true } : {}),
            ...(md5 === undefined ? {} : { md5: Buffer.from(md5).toString('base64') }),
          };
        });
      }
    },
    async folders(prefix) {
      const names: string[] = [];
      for await (const { segment } of container.listBlobsByHierarchy('/', { prefix }).byPage(PAGE)) {
        for (const { name } of segment.blobPrefixes ?? []) names.push(name.slice(prefix.length).replace(/\/$/, ''));
      }
      return names;
    },
    async read({ key, tag }) {
      const blob = container.getBlobClient(key);
      const { readableStreamBody } = await blob.download(0, undefined, { conditions: { ifMatch: tag } });
      if (readableStreamBody === undefined) throw new Error('the answer has no body');
      return readableStreamBody as Readable;
    },
    failure,
    close() {},
  };
}

function serviceUrl({ account, endpoint }: CloudPlace): string {
  if (endpoint !== undefined) return `${endpoint}/${account}`;
  return account.includes('.') ? `https://${account}` : `https://${account}.blob.core.windows.net`;
}

async function identity({ authType, clientId }: AzureCredentials): Promise<TokenCredential | undefined> {
  if (authType === 'key') return undefined;
  const { DefaultAzureCredential, ManagedIdentityCredential } = await import('@azure/identity');
  if (authType === 'default') return new DefaultAzureCredential();
  return clientId === '' ? new ManagedIdentityCredential() : new ManagedIdentityCredential({ clientId });
}

function failure(error: unknown): StoreFailure {
  if (!(error instanceof Error)) return 'other';
  const known = FAILURES['code' in error ? String(error.code) : ''];
  if (known !== undefined) return known;
  if (/CredentialUnavailable|AuthenticationRequired|AggregateAuthentication/.test(error.name)) return 'no_credentials';
  if (isNetworkError(error)) return 'away';
  const status = 'statusCode' in error ? Number(error.statusCode) : Number.NaN;
  // Without a key a container that is not public looks like this.
  if (status === 404) return 'no_credentials';
  if (status === 412) return 'changed';
  if (status === 401 || status === 403) return 'denied';
  return status >= 500 || status === 429 ? 'away' : 'other';
}
