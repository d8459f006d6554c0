import { readFileSync } from 'node:fs';
import { NereidError } from '@nereid/protocol';
import { z } from 'zod';
import type { CloudKind } from './cloud-place.ts';

/** Variables of the environment by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** '' stands for what is not given, in all of these. */
export interface S3Credentials {
  readonly keyId: string;
  readonly secretKey: string;
  readonly sessionToken: string;
  readonly region: string;
  readonly profile: string;
}

export interface GcsCredentials {
  readonly keyFile: string;
  /** The URL of an emulator, which asks for no credentials. */
  readonly emulator: string;
}

export interface AzureCredentials {
  readonly account: string;
  readonly key: string;
  readonly authType: 'key' | 'managed_identity' | 'default';
  readonly clientId: string;
}

export interface CloudCredentials {
  readonly s3: S3Credentials;
  readonly gs: GcsCredentials;
  readonly as: AzureCredentials;
}

/** The file of TRITON_CLOUD_CREDENTIAL_PATH; of several entries the one with the longest prefix of the repository's URL holds. */
export const CREDENTIALS_VARIABLE = 'TRITON_CLOUD_CREDENTIAL_PATH';

const authTypes = z.enum(['key', 'managed_identity', 'default']);
const s3Entry = z.strictObject({
  key_id: z.string().default(''),
  secret_key: z.string().default(''),
  session_token: z.string().default(''),
  region: z.string().default(''),
  profile: z.string().default(''),
});
const azureEntry = z.strictObject({
  account_str: z.string().default(''),
  account_key: z.string().default(''),
  auth_type: authTypes.default('key'),
  client_id: z.string().default(''),
});
const fileSchema = z.strictObject({
  s3: z.record(z.string(), s3Entry).default({}),
  gs: z.record(z.string(), z.string()).default({}),
  as: z.record(z.string(), azureEntry).default({}),
});

/**
 * What a repository is opened with: the entry of the credentials file where there is one, else the clouds' variables.
 * Throws INVALID_ARG where the file cannot be used.
 */
export function cloudCredentials<K extends CloudKind>(kind: K, url: string, env: Environment): CloudCredentials[K] {
  const file = env[CREDENTIALS_VARIABLE] ?? '';
  const all = file === '' ? fromEnvironment(env) : fromFile(file, url, kind, env);
  return all[kind];
}

function fromEnvironment(env: Environment): CloudCredentials {
  const value = (name: string) => env[name] ?? '';
  const authType = value('AZURE_STORAGE_AUTH_TYPE');
  const known = authTypes.safeParse(authType === '' ? 'key' : authType);
  return {
    s3: {
      keyId: value('AWS_ACCESS_KEY_ID'),
      secretKey: value('AWS_SECRET_ACCESS_KEY'),
      sessionToken: value('AWS_SESSION_TOKEN'),
      region: value('AWS_DEFAULT_REGION') || value('AWS_REGION'),
      profile: value('AWS_PROFILE'),
    },
    gs: { keyFile: value('GOOGLE_APPLICATION_CREDENTIALS'), emulator: value('STORAGE_EMULATOR_HOST') },
    as: {
      account: value('AZURE_STORAGE_ACCOUNT'),
      key: value('AZURE_STORAGE_KEY'),
      // As in Triton, one that it does not know is none.
      authType: known.success ? known.data : 'key',
      clientId: value('AZURE_STORAGE_CLIENT_ID'),
    },
  };
}

function fromFile(file: string, url: string, kind: CloudKind, env: Environment): CloudCredentials {
  const entries = readFile(file);
  const prefix = Object.keys(entries[kind])
    .filter((candidate) => url.startsWith(candidate))
    .sort((a, b) => b.length - a.length)[0];
  if (prefix === undefined) {
    throw wrongFile(file, `has nothing under "${kind}" for '${url}': add it, or "" for all`);
  }
  const s3 = entries.s3[prefix];
  const as = entries.as[prefix];
  const none = fromEnvironment({});
  return {
    s3:
      s3 === undefined
        ? none.s3
        : {
            keyId: s3.key_id,
            secretKey: s3.secret_key,
            sessionToken: s3.session_token,
            region: s3.region,
            profile: s3.profile,
          },
    gs: { keyFile: entries.gs[prefix] ?? '', emulator: env.STORAGE_EMULATOR_HOST ?? '' },
    as:
      as === undefined
        ? none.as
        : { account: as.account_str, key: as.account_key, authType: as.auth_type, clientId: as.client_id },
  };
}

function readFile(file: string): z.infer<typeof fileSchema> {
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    // A JSON error quotes the text, which has the keys.
    const reason =
      error instanceof SyntaxError ? 'it is no JSON' : error instanceof Error ? error.message : String(error);
    throw wrongFile(file, `cannot be read: ${reason}`);
  }
  const read = fileSchema.safeParse(json);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw wrongFile(file, `is wrong at ${issue?.path.join('.') || 'its top'}: ${issue?.message}`);
}

function wrongFile(file: string, what: string): NereidError {
  return new NereidError('INVALID_ARG', `the credentials file '${file}' of ${CREDENTIALS_VARIABLE} ${what}`, {
    field: CREDENTIALS_VARIABLE,
  });
}
