import type { OwnedModel } from './owned-model.ts';
import type { LiveRun } from './run-notes.ts';

/** The requests of all models that have no outcome yet; those of one model in order of arrival. */
export function liveRuns(models: ReadonlyMap<string, OwnedModel>): Iterable<LiveRun> {
  return { [Symbol.iterator]: () => runsOf(models.values()) };
}

function* runsOf(models: Iterable<OwnedModel>): Generator<LiveRun> {
  for (const { name: model, epoch, versions } of models) {
    for (const { version, queue } of versions) {
      for (const entry of queue?.entries ?? []) yield { source: { model, version, epoch: () => epoch }, entry };
    }
  }
}

/** One of them, by its token. */
export function liveRun({ name: model, epoch, versions }: OwnedModel, id: string): LiveRun | undefined {
  for (const { version, queue } of versions) {
    const entry = queue?.entries.get(id);
    if (entry !== undefined) return { source: { model, version, epoch: () => epoch }, entry };
  }
  return undefined;
}
