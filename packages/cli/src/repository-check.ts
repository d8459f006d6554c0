import { readdir, stat } from 'node:fs/promises';
import { isCloudPlace } from '@nereid/repository';

export type RepositoryFinding =
  | { readonly kind: 'ok' }
  /** It can be served, yet holds no model. */
  | { readonly kind: 'empty'; readonly text: string }
  | { readonly kind: 'unusable'; readonly text: string };

/** Whether a repository can be read, with the fix where it cannot. */
export async function checkRepository(path: string): Promise<RepositoryFinding> {
  const unusable = (text: string): RepositoryFinding => ({
    kind: 'unusable',
    text: `model repository ${path} ${text}`,
  });
  // The server opens it, and says what is wrong with it.
  if (isCloudPlace(path)) return { kind: 'ok' };
  try {
    if (!(await stat(path)).isDirectory()) return unusable('is not a folder: name the folder that holds the models');
    const entries = await readdir(path, { withFileTypes: true });
    // A link may lead to a folder; whether it does shows when the models are listed.
    if (entries.some((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !entry.name.startsWith('.'))) {
      return { kind: 'ok' };
    }
    return {
      kind: 'empty',
      text: `model repository ${path} holds no models: each model is a folder <model>/<version>/<file>`,
    };
  } catch (failure) {
    return unusable(whyUnreadable(failure));
  }
}

/** In words what a failed system call says, with the fix. */
export function whyUnreadable(failure: unknown): string {
  const code = failure instanceof Error && 'code' in failure ? failure.code : undefined;
  if (code === 'ENOENT') return 'does not exist: create it or correct --model-repository';
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be read: give this user permission to read and enter it';
  return `cannot be read: ${failure instanceof Error ? failure.message : String(failure)}`;
}
