import { type ErrorInfo, type InferMessage, noVersionReady, versionNotFound, versionNotReady } from '@nereid/protocol';
import { allVersions, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import type { VersionQueue } from './version-queue.ts';

/** The version that has the step's sequence, where one has it; of several the newest load's newest version. */
export function versionOfSequence(model: OwnedModel, message: InferMessage): QueuedVersion | undefined {
  if (model.phase !== 'serving') return undefined;
  const wanted = plainVersion(message.request.modelVersion);
  const found = allVersions(model).findLast(
    ({ version, signature, queue }) =>
      signature.sequence !== undefined && (wanted === '' || version === wanted) && queue?.finds(message) === true,
  );
  return found?.queue === undefined ? undefined : { version: found, queue: found.queue };
}

export interface QueuedVersion {
  readonly version: OwnedVersion;
  readonly queue: VersionQueue;
}

export type VersionChoice = ({ readonly ok: true } & QueuedVersion) | { readonly ok: false; readonly error: ErrorInfo };

/**
 * The version that a request means: the one it names, or the greatest READY one for ''. Errors are
 * Triton's (model_lifecycle.cc, GetModel).
 */
export function chooseVersion(model: OwnedModel, wanted: string, apart: boolean): VersionChoice {
  if (wanted === '') {
    for (let index = model.versions.length - 1; index >= 0; index--) {
      const candidate = model.versions[index];
      if (candidate?.state === 'READY' && candidate.queue !== undefined) {
        return { ok: true, version: candidate, queue: candidate.queue };
      }
    }
    return { ok: false, error: noVersionReady(model.name, model.versions, apart) };
  }
  const plain = plainVersion(wanted);
  const found = model.versions.find(({ version }) => version === plain);
  if (found?.state === 'READY' && found.queue !== undefined) {
    return { ok: true, version: found, queue: found.queue };
  }
  const known = found !== undefined || model.formerVersions.includes(plain);
  return { ok: false, error: known ? versionNotReady(model.name, plain) : versionNotFound(model.name, plain) };
}

function plainVersion(wanted: string): string {
  return wanted.replace(/^0+(?=[0-9])/, '');
}
