import { NereidError, thrownText } from '@nereid/protocol';
import { bucketWord, type CloudKind, type CloudPlace } from './cloud-place.ts';
import type { StoreFailure } from './object-store.ts';

/** How access is given. */
const CREDENTIALS: Readonly<Record<CloudKind, string>> = {
  s3: 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or TRITON_CLOUD_CREDENTIAL_PATH',
  gs: 'GOOGLE_APPLICATION_CREDENTIALS or TRITON_CLOUD_CREDENTIAL_PATH',
  as: 'AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY, AZURE_STORAGE_AUTH_TYPE, or TRITON_CLOUD_CREDENTIAL_PATH',
};

const RIGHTS: Readonly<Record<CloudKind, string>> = {
  s3: 's3:ListBucket and s3:GetObject',
  gs: 'storage.objects.list and storage.objects.get',
  as: 'the role Storage Blob Data Reader',
};

/** What a failed call says to whoever set the repository up: which bucket or key, and what to do. `key`: of the object that was read. */
export function storeError(place: CloudPlace, failure: StoreFailure, error: unknown, key?: string): NereidError {
  const { kind, url, bucket, prefix } = place;
  const repository = `the model repository '${url}'`;
  const what = key === undefined ? repository : `'${key.slice(prefix.length)}' of ${repository}`;
  const reason = reasonOf(error);
  const made = (code: 'INVALID_ARG' | 'UNAVAILABLE', text: string) => new NereidError(code, text, { cause: error });
  switch (failure) {
    case 'no_bucket':
      return made(
        'INVALID_ARG',
        `the ${bucketWord(kind)} '${bucket}' of ${repository} does not exist: create it or correct --model-repository`,
      );
    case 'denied':
      return made(
        'INVALID_ARG',
        `access to ${what} was denied (${reason}): check ${CREDENTIALS[kind]}, and that they have ${RIGHTS[kind]}`,
      );
    case 'no_credentials':
      return made('INVALID_ARG', `there are no credentials for ${what} (${reason}): set ${CREDENTIALS[kind]}`);
    case 'away':
      return made('UNAVAILABLE', `${what} cannot be reached (${reason}): check its address and the network`);
    case 'changed':
      return made('UNAVAILABLE', `${what} is not there any more as it was listed (${reason})`);
    case 'other':
      return made('UNAVAILABLE', `${what} cannot be read: ${reason}`);
  }
}

/** One line; SDKs name an error by `name` or `code` where its message says little. */
function reasonOf(error: unknown): string {
  const text = thrownText(error).trim().split(/\r?\n/)[0] ?? '';
  if (!(error instanceof Error)) return text;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const told = text === '' && error instanceof AggregateError ? thrownText(error.errors[0]) : text;
  return code === 'Error' || told.includes(code) ? told : [code, told].filter((part) => part !== '').join(': ');
}
