import type { Clock } from '@nereid/runtime';
import type { Conditions } from './conditions.ts';
import { closeVersions } from './model-queues.ts';
import type { ModelWorkers } from './model-workers.ts';
import { allDescribed, isRetired, type OwnedModel, type OwnedVersion } from './owned-model.ts';

/** A copy of a step whose answer was lost on the way comes within this. */
const COPIES_WAIT_US = 5_000_000;

export interface RetiringLoadsParts {
  readonly clock: Clock;
  readonly conditions: Conditions;
  readonly workers: Pick<ModelWorkers, 'tellAll'>;
  /** Roles are processes of their own. */
  readonly apart: boolean;
  readonly stopping: () => boolean;
  readonly isOwned: (model: OwnedModel) => boolean;
  readonly changed: (model: OwnedModel) => void;
}

/** Lets earlier loads of a model end what they have accepted, requests and sequences, and then has the workers drop them. */
export interface RetiringLoads {
  /** Begins with those that the model has now. */
  end(model: OwnedModel): void;
}

export function createRetiringLoads(parts: RetiringLoadsParts): RetiringLoads {
  const { clock, conditions, workers, isOwned } = parts;

  const isOver = (version: OwnedVersion) => version.queue === undefined || isRetired(version);

  const lingers = async (versions: readonly OwnedVersion[]) => {
    if (!parts.apart || versions.every(({ signature }) => signature.sequence === undefined)) return;
    const untilUs = clock.nowUs() + COPIES_WAIT_US;
    const timer = clock.at(untilUs, conditions.check);
    await conditions.wait(() => parts.stopping() || clock.nowUs() >= untilUs);
    timer.cancel();
  };

  const end = async (model: OwnedModel, versions: readonly OwnedVersion[]) => {
    for (const { queue, signature } of versions) if (signature.sequence === undefined) queue?.drain();
    const isKnown = () => !model.settling && allDescribed(model);
    await conditions.wait(() => parts.stopping() || !isOwned(model) || (isKnown() && versions.every(isOver)));
    await lingers(versions);
    if (parts.stopping() || !isOwned(model)) return;
    const over = versions.filter((version) => model.retiring.includes(version));
    if (over.length === 0) return;
    model.retiring = model.retiring.filter((version) => !over.includes(version));
    closeVersions(over);
    workers.tellAll(model, 'load');
    parts.changed(model);
  };

  return {
    end(model) {
      const { retiring } = model;
      if (retiring.length > 0) void end(model, retiring);
    },
  };
}
