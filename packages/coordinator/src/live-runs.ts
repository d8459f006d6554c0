import { allVersions, type OwnedModel } from './owned-model.ts';
import type { LiveRun } from './run-notes.ts';

/** The requests of all models that have no outcome yet; those of one model in order of arrival. */
export function liveRuns(models: ReadonlyMap<string, OwnedModel>): Iterable<LiveRun> {
  return { [Symbol.iterator]: () => runsOf(models.values()) };
}

function* runsOf(models: Iterable<OwnedModel>): Generator<LiveRun> {
  for (const owned of models) {
    const { name: model, epoch } = owned;
    for (const { version, queue } of allVersions(owned)) {
      for (const entry of queue?.entries ?? []) yield { source: { model, version, epoch: () => epoch }, entry };
    }
  }
}

/** One of them, by its token. */
export function liveRun(owned: OwnedModel, id: string): LiveRun | undefined {
  const { name: model, epoch } = owned;
  for (const { version, queue } of allVersions(owned)) {
    const entry = queue?.entries.get(id);
    if (entry !== undefined) return { source: { model, version, epoch: () => epoch }, entry };
  }
  return undefined;
}
