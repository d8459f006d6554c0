import { type ErrorInfo, noVersionReady, versionNotFound, versionNotReady } from '@nereid/protocol';
import type { OwnedModel } from './owned-model.ts';
import type { VersionQueue } from './version-queue.ts';

export type VersionChoice =
  | { readonly ok: true; readonly version: string; readonly queue: VersionQueue }
  | { readonly ok: false; readonly error: ErrorInfo };

/**
 * The version that a request means: the one it names, or the greatest READY one for ''. Errors are
 * Triton's (model_lifecycle.cc, GetModel).
 */
export function chooseVersion(model: OwnedModel, wanted: string, apart: boolean): VersionChoice {
  if (wanted === '') {
    for (let index = model.versions.length - 1; index >= 0; index--) {
      const candidate = model.versions[index];
      if (candidate?.state === 'READY' && candidate.queue !== undefined) {
        return { ok: true, version: candidate.version, queue: candidate.queue };
      }
    }
    return { ok: false, error: noVersionReady(model.name, model.versions, apart) };
  }
  const plain = wanted.replace(/^0+(?=[0-9])/, '');
  const found = model.versions.find(({ version }) => version === plain);
  if (found?.state === 'READY' && found.queue !== undefined) {
    return { ok: true, version: plain, queue: found.queue };
  }
  const known = found !== undefined || model.formerVersions.includes(plain);
  return { ok: false, error: known ? versionNotReady(model.name, plain) : versionNotFound(model.name, plain) };
}
