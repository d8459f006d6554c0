import { type CachedMessage, isAnswerFor, type Message, senderOf } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import { answerPlace } from './answer-place.ts';
import { answerSequences } from './answer-sequences.ts';
import { answerCount, type CountParts } from './count-answer.ts';
import type { Intake } from './intake.ts';
import type { JobIntake } from './job-intake.ts';
import { liveRuns } from './live-runs.ts';
import type { ModelChanges } from './model-changes.ts';
import { countCached } from './model-statistics.ts';
import { allVersions, type OwnedModel, type OwnedVersion } from './owned-model.ts';
import type { Owner } from './owner.ts';
import type { PassOn } from './pass-on.ts';
import type { RunNotes } from './run-notes.ts';
import { passOnSigns } from './stream-signs.ts';

export interface Receivers extends CountParts {
  readonly log: Log;
  /** What was sent to it was taken, and what was lost has come again. */
  readonly hasAll: () => boolean;
  readonly notes: RunNotes;
  readonly intake: Intake;
  readonly owner: Owner;
  readonly changes: Pick<ModelChanges, 'take'>;
  readonly jobs: JobIntake | undefined;
  readonly passOn: PassOn;
}

/** Hands a message to the part of the coordinator that it is for. */
export function receive(receivers: Receivers, message: Message): void {
  const { intake, jobs, log, mailbox, models, owner } = receivers;
  switch (message.kind) {
    case 'infer':
      intake.infer(message);
      break;
    case 'cancel':
      intake.cancel(message);
      break;
    case 'done':
      owner.done(message);
      break;
    case 'described':
      owner.described(message);
      passOnSigns(mailbox, message);
      break;
    case 'echo':
      if (!receivers.hasAll()) break;
      for (const { queue } of versionsOf(models, message.model)) queue?.heard(message.sentUs);
      break;
    case 'response':
      if (versionsOf(models, message.model).some(({ queue }) => queue?.answered(message) === true)) break;
      if (isAnswerFor(message.id, mailbox.id)) jobs?.response(message);
      // Of a batch whose answers waited for their turn, but not this one: its model was loaded anew, say.
      else receivers.passOn(message);
      break;
    case 'missing':
      jobs?.missing(message);
      break;
    case 'running':
      // Of jobs that stream: their queues know what runs.
      break;
    case 'cancel_job':
      jobs?.cancel(message);
      break;
    case 'count':
      answerCount(receivers, message);
      break;
    case 'cached':
      takeCached(models, message);
      break;
    case 'list':
    case 'evict':
      answerSequences(receivers, message);
      break;
    case 'change':
      receivers.changes.take(message);
      break;
    case 'place':
      answerPlace({ mailbox, directory: receivers.directory, models, onDemand: owner.onDemand }, message);
      break;
    case 'explain':
      mailbox.send(senderOf(message.id), receivers.notes.tell(message, liveRuns(models)));
      break;
    case 'refused':
      owner.refused(message).catch((error) => log.error({ err: error, model: message.model }, 'lease not renewed'));
      break;
    default:
      log.warn({ kind: message.kind }, 'message that no coordinator takes');
  }
}

function versionsOf(models: ReadonlyMap<string, OwnedModel>, name: string): readonly OwnedVersion[] {
  const model = models.get(name);
  return model === undefined ? [] : allVersions(model);
}

/** Of a version that is not served here (any more) nobody can say anything. */
function takeCached(models: ReadonlyMap<string, OwnedModel>, message: CachedMessage): void {
  const version = models.get(message.model)?.versions.find(({ version }) => version === message.version);
  if (version?.statistics !== undefined) countCached(version.statistics, message);
}
