import type { ModelRecord } from '@nereid/config';
import { compareEpochs, type PlaceMessage, senderOf } from '@nereid/protocol';
import type { Directory, Mailbox } from '@nereid/transport';
import type { OnDemand, PlacementReport } from './on-demand.ts';
import type { OwnedModel } from './owned-model.ts';

export interface PlaceParts {
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly onDemand: Pick<OnDemand, 'pin' | 'prefetch' | 'report'>;
}

/** Tells a gateway where a model is held, and why, after doing what it asks for. Only its owner knows, in its present epoch (R6). */
export function answerPlace({ mailbox, directory, models, onDemand }: PlaceParts, message: PlaceMessage): void {
  const { id, model: name, action } = message;
  const model = models.get(name);
  if (model === undefined || compareEpochs(model.epoch, message.epoch) !== 0) {
    const known = model?.epoch ?? directory.owner(name) ?? null;
    mailbox.send(senderOf(id), { kind: 'stale', model: name, id, known });
    return;
  }
  if (action === 'pin' || action === 'unpin') onDemand.pin(model, action === 'pin');
  if (action === 'prefetch') onDemand.prefetch(model);
  mailbox.send(senderOf(id), { kind: 'placed', model: name, id, report: reportJson(name, onDemand.report(model)) });
}

function reportJson(model: string, report: PlacementReport): string {
  const { mode, pinned, bytes, waiting, wanted, cannot, holders, considered, decisions } = report;
  return JSON.stringify({
    model,
    placement: mode,
    pinned,
    ...(bytes === undefined ? {} : { bytes_per_instance: bytes }),
    waiting,
    desired_workers: wanted,
    ...(cannot === '' ? {} : { cannot_load: cannot }),
    holders,
    workers: considered,
    decisions: decisions.map(({ atMs, text }) => ({ at: new Date(atMs).toISOString(), decision: text })),
  });
}
