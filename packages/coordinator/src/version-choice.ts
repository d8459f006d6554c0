import {
  type ErrorInfo,
  type InferMessage,
  noVersionReady,
  sequenceLost,
  versionAsked,
  versionNotFound,
  versionNotReady,
} from '@nereid/protocol';
import { allVersions, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import type { KnownSequence } from './session-book.ts';
import type { VersionQueue } from './version-queue.ts';

/**
 * The version that has the step's sequence, where one has it. Of several that it may mean: one where it goes on before
 * those where it has ended, then where it began last; of two that began in one moment the newest load's newest version.
 */
export function versionOfSequence(model: OwnedModel, message: InferMessage): QueuedVersion | undefined {
  if (model.phase !== 'serving') return undefined;
  const asked = versionAsked(message.request.modelVersion);
  const wanted = plainVersion(asked.version);
  let best: (QueuedVersion & { readonly known: KnownSequence }) | undefined;
  for (const version of allVersions(model)) {
    const { signature, queue } = version;
    if (signature.sequence === undefined || queue === undefined) continue;
    if (!asked.elsewhere && version.version !== wanted) continue;
    const known = queue.finds(message);
    if (known !== undefined && (best === undefined || !isBefore(known, best.known))) best = { version, queue, known };
  }
  return best;
}

function isBefore(one: KnownSequence, other: KnownSequence): boolean {
  return one.live === other.live ? one.sinceUs < other.sinceUs : other.live;
}

/**
 * Ends the sequences that a START by `chosen` begins anew: of its id, with other loads of the version, and with other
 * versions where the START would have gone to one that has it (R21). That with `chosen` itself ends by its own rule.
 */
export function endReplaced(model: OwnedModel, { request, step }: InferMessage, chosen: QueuedVersion): void {
  const { correlationId, sequenceStart } = request;
  if (!sequenceStart || step >= 0 || chosen.version.signature.sequence?.iterative !== false) return;
  const { version: asked, elsewhere } = versionAsked(request.modelVersion);
  for (const { version, queue } of allVersions(model)) {
    if (queue === undefined || queue === chosen.queue) continue;
    if (version !== chosen.version.version && !(elsewhere && asked !== '')) continue;
    const session = queue.sequenceOf(correlationId);
    if (session !== undefined) queue.evict(session, sequenceLost(model.name, correlationId));
  }
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
export function chooseVersion(model: OwnedModel, asked: string, apart: boolean): VersionChoice {
  const { version: wanted } = versionAsked(asked);
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
