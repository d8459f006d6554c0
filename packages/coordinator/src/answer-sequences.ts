import type { ModelRecord } from '@nereid/config';
import {
  compareEpochs,
  type EvictMessage,
  type ListedSequence,
  type ListMessage,
  senderOf,
  sequenceLost,
} from '@nereid/protocol';
import type { Directory, Mailbox } from '@nereid/transport';
import { allVersions, heldOf, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import type { SequenceRow } from './sequence-list.ts';

export interface SequencesParts {
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
}

/** Whatever its gateway asks for; an answer has an end. */
const LISTED_MAX = 1_000;

/**
 * Tells a gateway what sequences a model has, by the text of their sessions, or ends one of them. Only its owner knows,
 * in its present epoch (R6) and once every worker has said what it has: any other tells the gateway to ask again.
 */
export function answerSequences(parts: SequencesParts, message: ListMessage | EvictMessage): void {
  const { mailbox, directory, models } = parts;
  const { id, model: name } = message;
  const gateway = senderOf(id);
  const model = models.get(name);
  if (model === undefined || compareEpochs(model.epoch, message.epoch) !== 0 || model.settling) {
    const known = model?.epoch ?? directory.owner(name) ?? null;
    mailbox.send(gateway, { kind: 'stale', model: name, id, known });
    return;
  }
  const answer = message.kind === 'list' ? page(model, message) : { sequences: evicted(model, message), more: false };
  mailbox.send(gateway, { kind: 'listed', model: name, id, ...answer });
}

function page(model: OwnedModel, { after, limit }: ListMessage) {
  const behind = allSequences(model).filter(({ session }) => session > after);
  behind.sort((a, b) => (a.session < b.session ? -1 : 1));
  const count = Math.min(limit, LISTED_MAX);
  return { sequences: behind.slice(0, count), more: behind.length > count };
}

function evicted(model: OwnedModel, { session }: EvictMessage): readonly ListedSequence[] {
  const found = allSequences(model).filter((one) => one.session === session);
  for (const one of found) evict(model, one);
  return found;
}

function evict(model: OwnedModel, { session, correlationId }: ListedSequence): void {
  const error = sequenceLost(model.name, correlationId);
  for (const { queue } of allVersions(model)) queue?.evict(session, error);
}

/** Ends the present sequence of that id, of whose steps one is missing. */
export function endSequence(model: OwnedModel, correlationId: bigint | string): void {
  for (const one of allSequences(model)) if (one.correlationId === correlationId) evict(model, one);
}

function allSequences(model: OwnedModel): ListedSequence[] {
  return allVersions(model).flatMap((version) =>
    [...(version.queue?.sequences ?? [])].map((row) => withInstance(model, version, row)),
  );
}

function withInstance(model: OwnedModel, owned: OwnedVersion, row: SequenceRow): ListedSequence {
  const { version } = owned;
  const { place } = row;
  if (place === null) return { version, ...row };
  const view = model.workers.get(place.worker);
  const instances = view === undefined ? undefined : heldOf(view.held, owned)?.instances;
  const instanceName = instances?.find(({ index }) => index === place.instance)?.name ?? '';
  return { version, ...row, place: { ...place, instanceName } };
}
