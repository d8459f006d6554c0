import type { ModelRecord } from '@nereid/config';
import type { Clock } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';

/**
 * The records of models, for a while also those that are gone from the directory: a Redis that began
 * anew forgets them until their owners publish them again. Whoever owns the model meanwhile knows
 * whether it is there.
 */
export interface KnownRecords {
  find(model: string): ModelRecord | undefined;
  /** The model's record in the directory changed. */
  changed(model: string): void;
}

export function createKnownRecords(
  directory: Directory<ModelRecord>,
  clock: Clock,
  /** How long a record that is gone is still gone by. */
  remembered_ms: number,
): KnownRecords {
  const last = new Map(directory.records().map((record) => [record.name, record]));
  const gone = new Map<string, { readonly record: ModelRecord; readonly untilUs: number }>();

  const remembered = (model: string) => {
    const found = gone.get(model);
    if (found === undefined || clock.nowUs() < found.untilUs) return found?.record;
    gone.delete(model);
    return undefined;
  };

  return {
    find: (model) => directory.record(model) ?? remembered(model),
    changed(model) {
      const record = directory.record(model);
      const before = last.get(model);
      gone.delete(model);
      if (record !== undefined) {
        last.set(model, record);
        return;
      }
      last.delete(model);
      if (before === undefined || remembered_ms === 0) return;
      gone.set(model, { record: before, untilUs: clock.nowUs() + remembered_ms * 1000 });
    },
  };
}
