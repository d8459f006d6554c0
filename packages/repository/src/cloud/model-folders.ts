import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Environment } from './cloud-credentials.ts';
import type { CloudKind } from './cloud-place.ts';

/** Triton's variables for a folder to lay down models in. */
export const MOUNT_VARIABLES: Readonly<Record<CloudKind, string>> = {
  s3: 'TRITON_AWS_MOUNT_DIRECTORY',
  gs: 'TRITON_GCS_MOUNT_DIRECTORY',
  as: 'TRITON_AZURE_MOUNT_DIRECTORY',
};

/** A new folder for the models of one repository, in the folder that the environment names or in a temporary one. */
export async function modelsFolder(kind: CloudKind, env: Environment): Promise<string> {
  const mount = env[MOUNT_VARIABLES[kind]] ?? '';
  const parent = mount === '' ? tmpdir() : mount;
  try {
    return await mkdtemp(join(parent, 'nereid-models-'));
  } catch (error) {
    throw new NereidError('UNAVAILABLE', `models cannot be laid down in '${parent}': ${thrownText(error)}`, {
      cause: error,
    });
  }
}

/** Throws INVALID_ARG where the folder that the environment names is not there or has something in it, as Triton does. */
export async function checkMountDirectory(kind: CloudKind, env: Environment): Promise<void> {
  const variable = MOUNT_VARIABLES[kind];
  const folder = env[variable] ?? '';
  if (folder === '') return;
  const wrong = (what: string) => {
    return new NereidError('INVALID_ARG', `the folder '${folder}' of ${variable} ${what}`, { field: variable });
  };
  let entries: string[];
  try {
    entries = await readdir(folder);
  } catch (error) {
    throw wrong(`cannot be used: ${thrownText(error)}; it must exist and be empty`);
  }
  if (entries.length > 0) {
    throw wrong('must be empty: remove what is in it (a server that was killed leaves its models there)');
  }
}

/** Best effort: what cannot be removed stays. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 2 }).catch(() => {});
}
