import { randomUUID } from 'node:crypto';
import type { JournalLimits, ModelRecord } from '@nereid/config';
import {
  type ComparedRecordings,
  compareRecordings,
  type RecordedStep,
  type Recording,
  type RecordingState,
  readJournalFile,
  recordedBytes,
  type Tolerance,
  writeJournalFile,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { type Directory, type JournalReader, parseRecordingId, recordingId } from '@nereid/transport';
import type { Gateway } from './gateway.ts';
import { createReplays, type Replays } from './journal-replays.ts';

export interface JournalParts {
  readonly store: JournalReader;
  readonly directory: Pick<Directory<ModelRecord>, 'processes'>;
  readonly gateway: Gateway;
  readonly clock: Clock;
  readonly log: Log;
  /** Of a recording that comes as a file. */
  readonly limits: Pick<JournalLimits, 'steps' | 'recording_bytes'>;
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
  readonly after: ListPlace | undefined;
}

/** How far a list has come. */
export interface ListPlace {
  readonly model: string;
  /** As the store has it; '' for the model's first. */
  readonly behind: string;
}

export interface RecordingsPage {
  /** By model, of each the newest first. Fewer than the limit where many were looked at that are not asked for. */
  readonly recordings: readonly Recording[];
  /** There may be more behind this one. */
  readonly next: ListPlace | undefined;
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
  /** Compares the answers of two recordings, up to the first step that differs. Steps that took no effect are left out. */
  diff(recording: Recording, other: Recording, tolerance: Tolerance): Promise<ComparedRecordings>;
  /** The recording as a file (docs/replay-files.md). Rejects with NOT_FOUND where it goes away meanwhile. */
  exported(recording: Recording, gzip: boolean): AsyncIterable<Uint8Array>;
  /**
   * Keeps the recording of a file, gzipped or not, under an id of its own. Rejects with INVALID_ARG where the file is
   * broken, of a later version or beyond the limits, and with what its chunks reject with: nothing is kept then.
   */
  imported(chunks: AsyncIterable<Uint8Array>): Promise<Recording>;
  readonly replay: Replays['run'];
}

/** Recordings that one answer looks at where only some are asked for. */
const LOOKED_MAX = 5_000;
const LOOKED_PAGE = 500;
/** The frames of a file have their heads beside what counts of a recording. */
const FRAME_FACTOR = 2;
/** Steps that are read at a time. */
const STEPS_PAGE = 32;

export function createJournal({ store, directory, gateway, clock, log, limits }: JournalParts): Journal {
  /** A worker that has died could not say what became of what it recorded. */
  const told = (recording: Recording): Recording => {
    if (recording.state !== 'open' || recording.imported) return recording;
    const lives = directory.processes('worker').some(({ id }) => id === recording.worker);
    return lives ? recording : { ...recording, state: 'lost' };
  };

  async function* stepsFrom({ id, steps }: Recording, from: number): AsyncGenerator<RecordedStep, void, undefined> {
    for (let at = from; at < steps; ) {
      const page = await store.steps(id, at, Math.min(STEPS_PAGE, steps - at));
      if (page.length === 0) return;
      yield* page;
      at += page.length;
    }
  }

  const find = async (id: string) => {
    const known = knownId(id);
    const found = known === undefined ? undefined : await store.find(known);
    return found && told(found);
  };

  return {
    find,
    replay: createReplays({ gateway, clock, log, steps: stepsFrom }).run,
    async list({ model, state, sequenceId, limit, after }) {
      const names = model === '' ? [...(await store.models())].sort() : [model];
      const recordings: Recording[] = [];
      const isWanted = (recording: Recording) =>
        (state === undefined || recording.state === state) &&
        (sequenceId === undefined || String(recording.correlationId) === sequenceId);
      const takesAll = state === undefined && sequenceId === undefined;
      let looked = 0;
      for (const name of names) {
        if (after !== undefined && name < after.model) continue;
        let behind = after?.model === name ? after.behind : '';
        do {
          if (recordings.length === limit || looked >= LOOKED_MAX) return { recordings, next: { model: name, behind } };
          const left = limit - recordings.length;
          const page = await store.list({ model: name, limit: takesAll ? left : LOOKED_PAGE, after: behind });
          const wanted = page.recordings.map(told).filter(isWanted);
          recordings.push(...wanted.slice(0, left));
          looked += page.recordings.length;
          const last = recordings.at(-1);
          // The page's own place is behind others that are asked for.
          const upTo = wanted.length > left ? page.recordings.findIndex(({ id }) => id === last?.id) + 1 : 0;
          behind = upTo > 0 ? (await store.list({ model: name, limit: upTo, after: behind })).next : page.next;
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
          bytes += recordedBytes(step);
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
    exported: (recording, gzip) => writeJournalFile(recording, stepsFrom(recording, 0), { gzip }),
    async imported(chunks) {
      const bytes_max = limits.recording_bytes * FRAME_FACTOR;
      const file = await readJournalFile(chunks, { steps_max: limits.steps, bytes_max });
      try {
        const { model } = file.recording;
        const id = recordingId(model, `import-${randomUUID()}`);
        return await store.put({ ...file.recording, id, imported: true }, file.steps);
      } finally {
        await file.close();
      }
    },
    diff: (one, other, tolerance) => compareRecordings(stepsFrom(one, 0), stepsFrom(other, 0), tolerance),
  };
}

/** In the one way in which ids are written. */
function knownId(id: string): string | undefined {
  const place = parseRecordingId(id);
  return place && recordingId(place.model, place.session);
}
