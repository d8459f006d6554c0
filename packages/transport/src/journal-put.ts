/** Puts recordings that come as files. */
import { NereidError, type RecordedStep, type Recording } from '@nereid/protocol';
import type { JournalBounds, JournalReader } from './journal.ts';
import { placeOf, type RecordingPlace } from './journal-recording.ts';
import { FIRST_OF_MODEL, type JournalScripts, journalKeys, limitsText } from './journal-scripts.ts';
import { createStepEncoder, type EncodedStep } from './journal-step.ts';
import { isOutOfMemory, type RedisClient } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';
import { isNearlyFull } from './redis-memory.ts';

/** What goes to Redis in one call, beside its last step. */
const CALL_BYTES = 1_048_576;
const CALL_STEPS_MAX = 256;

export interface JournalPutParts {
  readonly keys: RedisKeys;
  readonly limits: JournalBounds;
  readonly client: RedisClient;
  readonly scripts: JournalScripts;
  readonly ask: <T>(question: () => Promise<T>) => Promise<T>;
  readonly find: JournalReader['find'];
  readonly remove: JournalReader['remove'];
  /** Of a model that has its first recording. */
  readonly note: (model: string) => Promise<void>;
}

/** A recording is open while it is put; what breaks off is removed. */
export function createJournalPut(parts: JournalPutParts): JournalReader['put'] {
  const { keys, limits, client, scripts, ask, find, remove, note } = parts;

  const append = async (place: RecordingPlace, steps: readonly EncodedStep[]) => {
    const args = [limitsText(limits, true), ...steps.flatMap((step) => step.args)];
    const told = (await ask(() => scripts.append(journalKeys(keys, place.model), args))) as readonly number[];
    const refused = told.find((_, index) => index % 2 === 0 && told[index + 1] !== FIRST_OF_MODEL);
    if (refused !== undefined)
      throw refusal(await ask(() => client.hget(keys.journalRecording(place.model, place.name), 'state')), limits);
  };

  const appendAll = async (
    place: RecordingPlace,
    { id, kind, model }: Recording,
    steps: AsyncIterable<RecordedStep> | Iterable<RecordedStep>,
  ) => {
    const encode = createStepEncoder(true);
    let waiting: EncodedStep[] = [];
    let bytes = 0;
    let count = 0;
    for await (const step of steps) {
      const encoded = encode({ id, kind, model, step, state: 'open' });
      count++;
      bytes += encoded.bytes;
      waiting.push(encoded);
      if (bytes < CALL_BYTES && waiting.length < CALL_STEPS_MAX) continue;
      await append(place, waiting);
      waiting = [];
      bytes = 0;
    }
    if (count === 0) throw invalid('the recording has no steps');
    if (waiting.length > 0) await append(place, waiting);
  };

  return async (recording, steps) => {
    const { id, model, state } = recording;
    const place = placeOf(id);
    if (place === undefined || place.model !== model) throw invalid(`'${id}' is no id of a recording of ${model}`);
    if (await ask(() => isNearlyFull(client))) throw full();
    await note(model);
    try {
      await appendAll(place, recording, steps);
      if (state !== 'open') {
        await ask(() => scripts.end([keys.journalRecording(model, '')], [place.name, state, '', '']));
      }
      const found = await find(id);
      if (found === undefined) throw refusal(null, limits);
      return found;
    } catch (error) {
      await remove(id).catch(() => {});
      throw error instanceof NereidError && isOutOfMemory(error.cause) ? full() : error;
    }
  };
}

/** By what became of the recording while it was put. */
function refusal(state: string | null, { steps, recording_bytes, bytes }: JournalBounds): NereidError {
  if (state === 'gap') return invalid('the steps of a recording must be numbered 0, 1, 2 and so on');
  if (state === 'capped') {
    return invalid(
      `the recording is too large: it may have ${steps} steps and ${Math.min(recording_bytes, bytes)} bytes (--journal-config steps=, recording_bytes=, bytes=)`,
    );
  }
  return new NereidError('UNAVAILABLE', 'the recording was removed while it was put: try again');
}

function full(): NereidError {
  return new NereidError('UNAVAILABLE', 'Redis is full: remove recordings, or give it more memory (maxmemory)');
}

function invalid(text: string): NereidError {
  return new NereidError('INVALID_ARG', text, { field: 'body' });
}
