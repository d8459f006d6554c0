import type { Log } from '@nereid/runtime';
import type { KeptTotal, KeptTotals } from '@nereid/transport';
import { addKept, keptText } from './kept-statistics.ts';
import { endedRequests } from './model-statistics.ts';
import type { OwnedModel } from './owned-model.ts';

export interface StatisticsKeeperParts {
  readonly log: Log;
  readonly models: ReadonlyMap<string, OwnedModel>;
  /** Undefined where nobody can take over: then nothing is kept. */
  readonly totals: KeptTotals | undefined;
}

/**
 * Carries what has been counted of a model from owner to owner.
 *
 * A model that was loaded here is *counted* at once. One that was taken over is *due* until what its
 * earlier owner kept has been read and added; so long nothing of it is written, which would take that
 * away, and nobody is told of it. An owner that hands over writes before it gives the lease back; one
 * that dies loses what it counted since it last wrote.
 */
export interface StatisticsKeeper {
  /** The model goes on here as an earlier owner served it. */
  takenOver(model: OwnedModel): void;
  isDue(model: OwnedModel): boolean;
  /** The model has been loaded, or where it was kept may have been lost: it is written again. */
  rewrite(model: OwnedModel): void;
  /** Reads what is due and writes what has changed; what fails is tried again at the next call. Never rejects. */
  keep(): Promise<void>;
  /** The models are gone: a later load counts from 0 in any case, this only tidies up. Never rejects. */
  forget(models: readonly OwnedModel[]): Promise<void>;
}

export function createStatisticsKeeper({ log, models, totals }: StatisticsKeeperParts): StatisticsKeeper {
  const due = new Set<OwnedModel>();
  /** What had happened when it was last written. */
  const written = new WeakMap<OwnedModel, number>();
  let keeping: Promise<void> | undefined;
  let isAway = false;

  const isOwned = (model: OwnedModel) => models.get(model.name) === model;

  const readDue = async (from: KeptTotals) => {
    for (const model of due) if (!isOwned(model)) due.delete(model);
    if (due.size === 0) return;
    const asked = [...due];
    const texts = await from.read(asked.map(({ name }) => name));
    for (const model of asked) {
      if (!due.delete(model)) continue;
      const text = texts.get(model.name);
      if (text !== undefined && !addKept(model, text)) {
        log.info({ model: model.name }, 'statistics begin anew: those kept are of other files');
      }
    }
  };

  const writeChanged = async (to: KeptTotals) => {
    const changed: { readonly model: OwnedModel; readonly events: number }[] = [];
    for (const model of models.values()) {
      const events = eventsOf(model);
      if (events !== undefined && !due.has(model) && written.get(model) !== events) changed.push({ model, events });
    }
    if (changed.length === 0) return;
    await to.write(changed.map(({ model }) => total(model, keptText(model))));
    for (const { model, events } of changed) written.set(model, events);
  };

  const run = async (kept: KeptTotals) => {
    try {
      await readDue(kept);
      await writeChanged(kept);
      isAway = false;
    } catch (error) {
      // Once for each time that it is away.
      if (!isAway) log.warn({ err: error }, 'statistics are not kept; it is tried again');
      isAway = true;
    }
  };

  const keep = async () => {
    if (totals === undefined) return;
    // What came after a write under way began is not in it.
    if (keeping !== undefined) await keeping;
    keeping ??= run(totals).finally(() => {
      keeping = undefined;
    });
    await keeping;
  };

  return {
    takenOver(model) {
      if (totals === undefined) return;
      due.add(model);
      void keep();
    },
    isDue: (model) => due.has(model),
    rewrite(model) {
      written.delete(model);
      void keep();
    },
    keep,
    async forget(gone) {
      if (totals === undefined || gone.length === 0) return;
      try {
        await totals.write(gone.map((model) => total(model, '')));
      } catch (error) {
        log.debug({ err: error }, 'statistics of models that are gone are still kept');
      }
    },
  };
}

function total({ name, epoch }: OwnedModel, text: string): KeptTotal {
  return { model: name, epoch: epoch.number, text };
}

/** Rises with whatever is counted; undefined for a model that is not served. */
function eventsOf({ versions }: OwnedModel): number | undefined {
  let events: number | undefined;
  for (const { statistics } of versions) {
    if (statistics !== undefined)
      events = (events ?? 0) + endedRequests(statistics) + statistics.executions + statistics.cacheMisses;
  }
  return events;
}
