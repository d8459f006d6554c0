/** Reads recordings from Redis, removes them, and puts those that come as files. */
import { errorInfo, NereidError, type RecordedStep, type Recording } from '@nereid/protocol';
import { answeredWithin, type Clock } from '@nereid/runtime';
import type { JournalBounds, JournalReader } from './journal.ts';
import { createJournalPut } from './journal-put.ts';
import { placeOf, type RecordingPlace, readPage, recordingOf, stepOf } from './journal-recording.ts';
import { journalKeys, journalScripts, noteArgs } from './journal-scripts.ts';
import { fillTensors } from './journal-tensors.ts';
import type { RedisConnector } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';

/** How long an answer of Redis is waited for. */
const ANSWER_MS_MAX = 5_000;
/** Of one reply with steps, as far as their mean tells. */
const PAGE_BYTES = 4_194_304;
const PAGE_STEPS_MAX = 512;

/** `<began>~<name>`: Redis takes nothing else for a score. */
function isPlace(after: string): boolean {
  const [began = '', name] = after.split('~');
  return name !== undefined && began.trim() !== '' && Number.isFinite(Number(began));
}

export interface JournalReaderParts {
  readonly connector: RedisConnector;
  readonly keys: RedisKeys;
  readonly clock: Clock;
  readonly limits: JournalBounds;
}

/** On a connection of its own, which is dialled at the first use. */
export function createJournalReader(parts: JournalReaderParts): JournalReader & { close(): void } {
  const { connector, keys, clock, limits } = parts;
  const connection = connector.connect('journal-read');
  const { client } = connection;
  const scripts = journalScripts(client);
  const set = keys.journalModels('all');

  const ask = async <T>(question: () => Promise<T>): Promise<T> => {
    try {
      if (!connection.isReady) await answeredWithin(connection.ready(), ANSWER_MS_MAX, clock);
      return await answeredWithin(question(), ANSWER_MS_MAX, clock);
    } catch (cause) {
      const text = `Redis at ${connector.url} does not answer for the journal now: ${errorInfo(cause).message}`;
      throw new NereidError('UNAVAILABLE', text, { cause });
    }
  };

  const read = async (place: RecordingPlace): Promise<Recording | undefined> =>
    recordingOf(place, await ask(() => client.hgetall(keys.journalRecording(place.model, place.name))));

  /** `onlyGone`: where it ran out. */
  const forget = async ({ model, name }: RecordingPlace, onlyGone: boolean): Promise<boolean> =>
    (await ask(() => scripts.remove(journalKeys(keys, model), [name, onlyGone ? 1 : 0]))) === 1;

  const find = async (id: string): Promise<Recording | undefined> => {
    const place = placeOf(id);
    return place === undefined ? undefined : read(place);
  };

  const remove = async (id: string): Promise<boolean> => {
    const place = placeOf(id);
    return place !== undefined && forget(place, false);
  };

  const hasAny = async (model: string) => (await ask(() => client.exists(keys.journal(model)))) > 0;

  /** False for one that has no recordings, which is forgotten. */
  const isKept = async (model: string): Promise<boolean> => {
    if (await hasAny(model)) return true;
    await ask(() => client.srem(set, model));
    // A recording of it may have begun meanwhile.
    if (!(await hasAny(model))) return false;
    await note(model);
    return true;
  };
  const note = async (model: string) => void (await ask(() => scripts.note([set], noteArgs(model, limits))));

  const frames = async ({ model, name }: RecordingPlace, from: number, count: number) => {
    const key = keys.journalSteps(model, name);
    const entries = await ask(() => client.xrangeBuffer(key, `${from + 1}-0`, '+', 'COUNT', count));
    return entries.map(([, [, frame]]) => frame).filter((frame) => frame !== undefined);
  };

  return {
    async models() {
      const names = await ask(() => client.smembers(set));
      const kept = await Promise.all(names.map(isKept));
      return names.filter((_, index) => kept[index]).sort();
    },
    async list({ model, limit, after }) {
      if (after !== '' && !isPlace(after))
        throw new NereidError('INVALID_ARG', `after '${after}' is not the 'next' of an earlier list`, {
          field: 'after',
        });
      const page = await ask(() => readPage(client, keys.journal(model), limit, after));
      const found = await Promise.all(page.map(({ name }) => read({ model, name })));
      for (const [index, { name }] of page.entries()) {
        if (found[index] === undefined) await forget({ model, name }, true);
      }
      const last = page.at(-1);
      return {
        recordings: found.filter((recording) => recording !== undefined),
        next: last === undefined || page.length < limit ? '' : `${last.began}~${last.name}`,
      };
    },
    find,
    async steps(id, from, limit) {
      const place = placeOf(id);
      const recording = place === undefined ? undefined : await read(place);
      if (place === undefined || recording === undefined) return [];
      const mean = Math.max(1, recording.bytes / Math.max(1, recording.steps));
      const perPage = Math.max(1, Math.min(PAGE_STEPS_MAX, Math.floor(PAGE_BYTES / mean)));
      const steps: RecordedStep[] = [];
      while (steps.length < limit) {
        const count = Math.min(perPage, limit - steps.length);
        const page = await frames(place, from + steps.length, count);
        steps.push(...page.map(stepOf));
        if (page.length < count) break;
      }
      const tensors = keys.journalTensors(place.model, place.name);
      return fillTensors(steps, (digests) => ask(() => client.hmgetBuffer(tensors, ...digests)));
    },
    remove,
    put: createJournalPut({ keys, limits, client, scripts, ask, find, remove, note }),
    close: () => connection.close(),
  };
}
