import type { ModelRecord } from '@nereid/config';
import type { RecordedStep, Recording, RecordingState } from '@nereid/protocol';
import { type Directory, type JournalReader, parseRecordingId, recordingId } from '@nereid/transport';

export interface JournalParts {
  readonly store: JournalReader;
  readonly directory: Pick<Directory<ModelRecord>, 'processes'>;
}

export interface RecordingsQuery {
  /** '' for all models. */
  readonly model: string;
  readonly state: RecordingState | undefined;
  /** As text; undefined for any. */
  readonly sequenceId: string | undefined;
  /** From 1. */
  readonly limit: number;
  /** The `next` of an earlier page; undefined for the first. */
  readonly after: string | undefined;
}

export interface RecordingsPage {
  /** By model, of each the newest first. Fewer than the limit where many were looked at that are not asked for. */
  readonly recordings: readonly Recording[];
  /** There may be more behind this one. */
  readonly next: string | undefined;
}

/** Recordings as clients see them. What asks Redis rejects with UNAVAILABLE where that does not answer. */
export interface Journal {
  list(query: RecordingsQuery): Promise<RecordingsPage>;
  /** Takes an id as it stands in a path. */
  find(id: string): Promise<Recording | undefined>;
  /** How many of its steps took effect; undefined where all did, and where that is not known yet. */
  applied(recording: Recording): Promise<number | undefined>;
  /** Steps from `from` on, at most `limit` and about `bytesMax` of their tensors, one at least where there is one. */
  steps(recording: Recording, from: number, limit: number, bytesMax: number): Promise<readonly RecordedStep[]>;
  /** What it was; undefined for none. */
  remove(id: string): Promise<Recording | undefined>;
}

/** Recordings that one answer looks at where only some are asked for. */
const LOOKED_MAX = 5_000;
const LOOKED_PAGE = 500;
/** Steps that are read at a time. */
const STEPS_PAGE = 32;

export function createJournal({ store, directory }: JournalParts): Journal {
  /** A worker that has died could not say what became of what it recorded. */
  const told = (recording: Recording): Recording => {
    if (recording.state !== 'open' || recording.imported) return recording;
    const lives = directory.processes('worker').some(({ id }) => id === recording.worker);
    return lives ? recording : { ...recording, state: 'lost' };
  };

  const find = async (id: string) => {
    const known = knownId(id);
    const found = known === undefined ? undefined : await store.find(known);
    return found && told(found);
  };

  return {
    find,
    async list({ model, state, sequenceId, limit, after }) {
      const names = model === '' ? [...(await store.models())].sort() : [model];
      const place = after === undefined ? undefined : parseRecordingId(after);
      const recordings: Recording[] = [];
      const isWanted = (recording: Recording) =>
        (state === undefined || recording.state === state) &&
        (sequenceId === undefined || String(recording.correlationId) === sequenceId);
      const takesAll = state === undefined && sequenceId === undefined;
      let looked = 0;
      for (const name of names) {
        if (place !== undefined && name < place.model) continue;
        let behind = place?.model === name && after !== undefined ? after : '';
        do {
          const most = takesAll ? limit - recordings.length : LOOKED_PAGE;
          const page = await store.list({ model: name, limit: most, after: behind });
          for (const each of page.recordings) {
            const recording = told(each);
            if (isWanted(recording)) recordings.push(recording);
            if (recordings.length === limit) return { recordings, next: each.id };
          }
          looked += page.recordings.length;
          behind = page.next;
          if (looked >= LOOKED_MAX && behind !== '') return { recordings, next: behind };
        } while (behind !== '');
      }
      return { recordings, next: undefined };
    },
    async applied({ id, state, steps }) {
      if (state === 'cancelled') return steps - 1;
      if (state !== 'lost') return undefined;
      // It went with its worker between two steps, or with a step.
      const [last] = await store.steps(id, steps - 1, 1);
      return last === undefined || last.effect === 'applied' ? steps : steps - 1;
    },
    async steps({ id }, from, limit, bytesMax) {
      const steps: RecordedStep[] = [];
      let bytes = 0;
      while (steps.length < limit) {
        const page = await store.steps(id, from + steps.length, Math.min(STEPS_PAGE, limit - steps.length));
        for (const step of page) {
          bytes += bytesOf(step);
          if (steps.length > 0 && bytes > bytesMax) return steps;
          steps.push(step);
        }
        if (page.length === 0) break;
      }
      return steps;
    },
    async remove(id) {
      const recording = await find(id);
      return recording !== undefined && (await store.remove(recording.id)) ? recording : undefined;
    },
  };
}

/** In the one way in which ids are written. */
function knownId(id: string): string | undefined {
  const place = parseRecordingId(id);
  return place && recordingId(place.model, place.session);
}

function bytesOf({ request, answers }: RecordedStep): number {
  const tensors = [...request.inputs, ...answers.flatMap((answer) => (answer.ok ? answer.outputs : []))];
  return tensors.reduce((bytes, { data }) => bytes + (data?.byteLength ?? 0), 0);
}
