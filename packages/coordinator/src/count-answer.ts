import type { ModelRecord } from '@nereid/config';
import { type CountMessage, compareEpochs, senderOf } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { OwnedModel } from './owned-model.ts';
import { queueStatistics } from './queue-statistics.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import { versionStatistics } from './version-statistics.ts';

export interface CountParts {
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly keeper: Pick<StatisticsKeeper, 'isDue'>;
}

/**
 * Tells a gateway what has been counted of a model's versions. Only its owner knows, in its present
 * epoch (R6) and once it knows what an earlier one counted: any other tells the gateway to ask again.
 */
export function answerCount({ clock, mailbox, directory, models, keeper }: CountParts, message: CountMessage): void {
  const { id, model: name, versions: asked } = message;
  const model = models.get(name);
  if (model === undefined || compareEpochs(model.epoch, message.epoch) !== 0 || keeper.isDue(model)) {
    const known = model?.epoch ?? directory.owner(name) ?? null;
    mailbox.send(senderOf(id), { kind: 'stale', model: name, id, known });
    return;
  }
  const nowUs = clock.nowUs();
  const versions = model.versions.flatMap(({ version, queue, statistics }) =>
    queue === undefined || statistics === undefined || !asked.includes(version)
      ? []
      : [
          {
            ...versionStatistics(name, version, statistics),
            queue: queueStatistics(queue, statistics, nowUs),
          },
        ],
  );
  mailbox.send(senderOf(id), { kind: 'counted', model: name, id, versions });
}
