import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openRepositories } from '../open-repositories.ts';
import { cloudCredentials } from './cloud-credentials.ts';

let root = '';
let file = '';
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-credentials-'));
  file = join(root, 'credentials.json');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const S3 = { keyId: '', secretKey: '', sessionToken: '', region: '', profile: '' };
const AZURE = { account: '', key: '', authType: 'key', clientId: '' };

describe('of the environment', () => {
  test.each([
    ['s3', {}, S3],
    [
      's3',
      { AWS_ACCESS_KEY_ID: 'k', AWS_SECRET_ACCESS_KEY: 's', AWS_SESSION_TOKEN: 't', AWS_DEFAULT_REGION: 'r' },
      { ...S3, keyId: 'k', secretKey: 's', sessionToken: 't', region: 'r' },
    ],
    ['s3', { AWS_PROFILE: 'p', AWS_REGION: 'r' }, { ...S3, profile: 'p', region: 'r' }],
    ['gs', { GOOGLE_APPLICATION_CREDENTIALS: 'f' }, { keyFile: 'f', emulator: '' }],
    ['as', { AZURE_STORAGE_ACCOUNT: 'a', AZURE_STORAGE_KEY: 'k' }, { ...AZURE, account: 'a', key: 'k' }],
    [
      'as',
      { AZURE_STORAGE_AUTH_TYPE: 'managed_identity', AZURE_STORAGE_CLIENT_ID: 'c' },
      { ...AZURE, authType: 'managed_identity', clientId: 'c' },
    ],
    ['as', { AZURE_STORAGE_AUTH_TYPE: 'unheard' }, AZURE],
  ] as const)('%s, %o', (kind, environment, expected) => {
    expect(cloudCredentials(kind, `${kind}://x/y`, environment)).toEqual(expected);
  });
});

describe('of the file', () => {
  const given = (contents: unknown) => {
    writeFileSync(file, typeof contents === 'string' ? contents : JSON.stringify(contents));
    // What else the environment has does not count.
    return { TRITON_CLOUD_CREDENTIAL_PATH: file, AWS_ACCESS_KEY_ID: 'other', AWS_SECRET_ACCESS_KEY: 'other' };
  };
  const entries = {
    s3: {
      '': { region: 'all' },
      's3://bucket': { key_id: 'k', secret_key: 's' },
      's3://bucket/deep': { profile: 'p' },
    },
    gs: { 'gs://bucket': '/key.json' },
    as: { '': { account_str: 'a', account_key: 'k' } },
  };

  test.each([
    ['s3', 's3://elsewhere/x', { ...S3, region: 'all' }],
    ['s3', 's3://bucket/x', { ...S3, keyId: 'k', secretKey: 's' }],
    ['s3', 's3://bucket/deep/x', { ...S3, profile: 'p' }],
    ['gs', 'gs://bucket/x', { keyFile: '/key.json', emulator: '' }],
    ['as', 'as://a/c', { ...AZURE, account: 'a', key: 'k' }],
  ] as const)('%s: the longest prefix of %s', (kind, url, expected) => {
    expect(cloudCredentials(kind, url, given(entries))).toEqual(expected);
  });

  test.each([
    ['that has nothing for a repository', entries, `has nothing under "gs" for 'gs://other': add it, or "" for all`],
    ['that is no JSON', '{"gs": secret}', 'cannot be read: it is no JSON'],
    ['with an unknown key', { gs: {}, s3: { '': { key: 'x' } } }, 'is wrong at s3.'],
    ['with a wrong value', { gs: { '': { path: 'x' } } }, 'is wrong at gs.'],
  ])('one %s', (_name, contents, text) => {
    expect(() => cloudCredentials('gs', 'gs://other', given(contents))).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARG',
        field: 'TRITON_CLOUD_CREDENTIAL_PATH',
        message: expect.stringContaining(`the credentials file '${file}' of TRITON_CLOUD_CREDENTIAL_PATH ${text}`),
      }),
    );
  });
});

describe('the folder that models are laid down in', () => {
  const open = (folder: string) =>
    openRepositories(['s3://bucket'], { environment: { TRITON_AWS_MOUNT_DIRECTORY: folder }, clock: systemClock() });

  test('must exist and be empty', async () => {
    await expect(open(join(root, 'none'))).rejects.toThrow(
      /TRITON_AWS_MOUNT_DIRECTORY cannot be used: ENOENT.*must exist/,
    );
    mkdirSync(join(root, 'models'));
    await (await open(join(root, 'models'))).close();
    writeFileSync(join(root, 'models', 'x'), '');
    await expect(open(join(root, 'models'))).rejects.toThrow(/TRITON_AWS_MOUNT_DIRECTORY must be empty/);
  });
});
