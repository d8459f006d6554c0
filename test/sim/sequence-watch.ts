/** What workers say of the sequences that they keep: one a slot, few that ended, and none once all is quiet (S6). */
import type { DescribedMessage, ExecuteMessage, Message, ProcessId, VersionDescription } from '@nereid/protocol';
import type { SimChecks } from './sim-checks.ts';

export interface SequenceWatch {
  /** A worker tells it. */
  sent(message: Message): void;
  /** A batch that a worker gets. */
  received(worker: ProcessId, batch: ExecuteMessage): void;
  /** What these workers still keep, in words. */
  left(workers: readonly ProcessId[]): readonly string[];
}

/** Of a model's version at one worker, at any time; and once all have been remembered for their time (docs/protocol.md, section 4). */
const ENDED_MAX = 1_024;
const OLD_MAX = 64;

export function createSequenceWatch(fail: SimChecks['fail']): SequenceWatch {
  /** The last of each worker and model. */
  const told = new Map<string, DescribedMessage>();

  const check = (what: string, { slots = [], ended = [] }: VersionDescription) => {
    const places = slots.map(({ instance, slot }) => `${instance}/${slot}`);
    if (new Set(places).size < places.length) fail('S3', `${what} has two sequences in one slot: ${places}`);
    const sessions = [...slots, ...ended].map(({ session }) => session);
    if (new Set(sessions).size < sessions.length) fail('S3', `${what} has a sequence twice: ${sessions}`);
    if (ended.length > ENDED_MAX) fail('S6', `${what} remembers ${ended.length} sequences that ended`);
  };

  return {
    sent(message) {
      if (message.kind !== 'described') return;
      const { worker, model, versions } = message;
      told.set(`${worker}/${model}`, message);
      for (const version of versions) check(`${model}/${version.version} at ${worker}`, version);
    },
    received(worker, { model, batch, entries }) {
      const check = (what: string, all: readonly (string | number)[]) => {
        if (new Set(all).size < all.length)
          fail('batch', `batch ${batch} of ${model} at ${worker} has a ${what} twice`);
      };
      check(
        'slot',
        entries.flatMap(({ slot }) => (slot < 0 ? [] : slot)),
      );
      check(
        'sequence',
        entries.flatMap(({ session }) => session ?? []),
      );
    },
    left: (workers) =>
      [...told.values()].flatMap(({ worker, model, versions }) =>
        workers.includes(worker)
          ? versions.flatMap(({ version, slots = [], ended = [] }) => {
              const what = `${model}/${version} at ${worker}`;
              return [
                ...slots.map(({ session }) => `${what} keeps sequence ${session}`),
                ...(ended.length > OLD_MAX ? [`${what} remembers ${ended.length} sequences`] : []),
              ];
            })
          : [],
      ),
  };
}
