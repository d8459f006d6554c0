import type { Readable } from 'node:stream';
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { LIMITS } from '@nereid/config';
import type { S3Credentials } from './cloud-credentials.ts';
import type { CloudPlace } from './cloud-place.ts';
import { isNetworkError, type ObjectStore, type StoredObject, type StoreFailure } from './object-store.ts';

/** Of servers of one's own, which have none but want one in signatures. */
const DEFAULT_REGION = 'us-east-1';

const FAILURES: Readonly<Record<string, StoreFailure>> = {
  NoSuchBucket: 'no_bucket',
  CredentialsProviderError: 'no_credentials',
  AccessDenied: 'denied',
  ExpiredToken: 'denied',
  Forbidden: 'denied',
  InvalidAccessKeyId: 'denied',
  InvalidToken: 'denied',
  SignatureDoesNotMatch: 'denied',
  NoSuchKey: 'changed',
  PreconditionFailed: 'changed',
  TimeoutError: 'away',
};

/** Amazon S3, or a server that speaks its protocol. Loads the SDK. */
export async function openS3({ bucket, endpoint }: CloudPlace, credentials: S3Credentials): Promise<ObjectStore> {
  const { GetObjectCommand, ListObjectsV2Command, S3Client } = await import('@aws-sdk/client-s3');
  const client = new S3Client(clientConfig(endpoint, credentials));
  const list = async function* (prefix: string, delimiter?: string) {
    let token: string | undefined;
    do {
      const page = await client.send(
        new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, Delimiter: delimiter, ContinuationToken: token }),
      );
      yield page;
      token = page.IsTruncated === true ? page.NextContinuationToken : undefined;
    } while (token !== undefined);
  };
  return {
    async *pages(prefix) {
      for await (const { Contents = [] } of list(prefix)) {
        yield Contents.map(({ Key = '', Size = 0, ETag = '' }): StoredObject => ({ key: Key, size: Size, tag: ETag }));
      }
    },
    async folders(prefix) {
      const names: string[] = [];
      for await (const { CommonPrefixes = [] } of list(prefix, '/')) {
        for (const { Prefix = '' } of CommonPrefixes) names.push(Prefix.slice(prefix.length).replace(/\/$/, ''));
      }
      return names;
    },
    async read({ key, tag }) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key, IfMatch: tag }));
      if (Body === undefined) throw new Error('the answer has no body');
      return Body as Readable;
    },
    failure,
    close: () => client.destroy(),
  };
}

/** Triton's order: keys that are given, else a profile, else what the SDK finds (its files, the machine's role). */
function clientConfig(endpoint: string | undefined, credentials: S3Credentials): S3ClientConfig {
  const { keyId, secretKey, sessionToken, profile, region } = credentials;
  const hasKeys = keyId !== '' && secretKey !== '';
  const keys = { accessKeyId: keyId, secretAccessKey: secretKey };
  return {
    ...(region === '' ? {} : { region }),
    ...(region === '' && (endpoint !== undefined || hasKeys) ? { region: DEFAULT_REGION } : {}),
    followRegionRedirects: true,
    // A server of one's own is one host for all buckets.
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(hasKeys ? { credentials: sessionToken === '' ? keys : { ...keys, sessionToken } } : {}),
    ...(!hasKeys && profile !== '' ? { profile } : {}),
    requestHandler: {
      connectionTimeout: LIMITS.cloud_connect_timeout_ms,
      socketTimeout: LIMITS.cloud_idle_timeout_ms,
    },
  };
}

function failure(error: unknown): StoreFailure {
  if (!(error instanceof Error)) return 'other';
  const known = FAILURES[error.name];
  if (known !== undefined) return known;
  if (isNetworkError(error)) return 'away';
  const status = statusOf(error);
  if (status === 412 || status === 404) return 'changed';
  if (status === 401 || status === 403) return 'denied';
  return status !== undefined && status >= 500 ? 'away' : 'other';
}

function statusOf(error: Error): number | undefined {
  const metadata = '$metadata' in error ? error.$metadata : undefined;
  const status = typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata;
  return status && typeof metadata.httpStatusCode === 'number' ? metadata.httpStatusCode : undefined;
}
