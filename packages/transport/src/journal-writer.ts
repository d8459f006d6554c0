/** Records steps in Redis, beside the requests that they are of. */
import { answeredWithin, type Clock, type Log } from '@nereid/runtime';
import { createBoundedWaits } from './bounded-waits.ts';
import type { JournalBounds, JournalWriter, NewStep } from './journal.ts';
import { createJournalMarks, type Mark } from './journal-marks.ts';
import {
  FIRST_OF_MODEL,
  journalKeys,
  journalScripts,
  limitsText,
  noteArgs,
  STEP_NO_ROOM,
  STEP_OVER,
} from './journal-scripts.ts';
import { createStepEncoder, type EncodedStep, recordingName } from './journal-step.ts';
import { isOutOfMemory, isRefusal, type RedisConnector } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';
import { isNearlyFull } from './redis-memory.ts';

/** The longest that a batch's answers wait for their records. */
const ANSWER_MS_MAX = 250;
/** What Redis has not answered yet; beyond it steps are not recorded. */
const WAITING_BYTES_MAX = 67_108_864;
/** Steps per call at most: Redis does nothing else meanwhile. */
const STEPS_PER_CALL_MAX = 256;
const MEMORY_LOOK_MS = 2_000;
/** A model that is recorded is noted again so often at least. */
const NOTE_MS_MAX = 60_000;
const LOG_PAUSE_MS = 10_000;

export interface JournalWriterParts {
  readonly connector: RedisConnector;
  readonly keys: RedisKeys;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: JournalBounds;
}

/** Counts steps that are not recorded, and tells of them now and then. */
interface Drops {
  readonly steps: number;
  add(steps: number, why: string, err?: unknown): void;
}

function createDrops(clock: Clock, log: Log): Drops {
  let steps = 0;
  let told = 0;
  let toldUs = Number.NEGATIVE_INFINITY;
  return {
    get steps() {
      return steps;
    },
    add(more, why, err) {
      steps += more;
      if (more === 0 || clock.nowUs() - toldUs < LOG_PAUSE_MS * 1000) return;
      log.warn({ err, steps: steps - told, dropped: steps }, `journal: steps not recorded: ${why}`);
      toldUs = clock.nowUs();
      told = steps;
    },
  };
}

/** On a connection of its own, which is dialled at the first use. */
export function createJournalWriter({ connector, keys, clock, log, limits }: JournalWriterParts): JournalWriter {
  const connection = connector.connect('journal');
  const { client } = connection;
  const scripts = journalScripts(client);
  const encode = createStepEncoder();
  const limitsOf = { begin: limitsText(limits, true), full: limitsText(limits, false) };
  const keysOf = new Map<string, readonly string[]>();
  const notedUs = new Map<string, number>();
  const noteAgainUs = Math.min(NOTE_MS_MAX, (limits.age_s * 1000) / 2) * 1000;
  const waits = createBoundedWaits(clock, ANSWER_MS_MAX);
  const drops = createDrops(clock, log);
  let waitingBytes = 0;
  let isFull = false;
  let lookedUs = Number.NEGATIVE_INFINITY;
  let dialled: Promise<void> | undefined;
  let isDialling = false;
  /** Since the connection is there an append was answered: Redis has the script, and takes steps by what is sent. */
  let isProven = false;
  let isClosed = false;

  const modelKeys = (model: string) => {
    const known = keysOf.get(model);
    if (known !== undefined) return known;
    const made = journalKeys(keys, model);
    keysOf.set(model, made);
    return made;
  };

  const marks = createJournalMarks(async (sent) => {
    if (!connection.isReady) throw new Error('Redis is away');
    const [{ model }] = sent as readonly [Mark, ...Mark[]];
    const args = sent.flatMap(({ id, state, worker, last }) => [recordingName(id), state, worker, last ?? '']);
    try {
      const over = await scripts.end([keys.journalRecording(model, '')], args);
      return (over as readonly number[]).map((one) => one === 1);
    } catch (error) {
      if (isRefusal(error)) return undefined;
      throw error;
    }
  });

  const drop = (steps: readonly NewStep[], why: string, err?: unknown) => {
    for (const { id, model, step } of steps) {
      marks.add({ id, model, worker: step.worker, state: 'gap', last: step.step });
    }
    drops.add(isClosed ? 0 : steps.length, why, err);
  };

  const look = async () => {
    lookedUs = clock.nowUs();
    try {
      isFull = await isNearlyFull(client);
    } catch {
      // The connection broke, which its own event tells.
    }
  };

  const note = (model: string) => {
    notedUs.set(model, clock.nowUs());
    scripts.note([keys.journalModels('all')], noteArgs(model, limits)).catch(() => notedUs.delete(model));
  };

  /** What the script says of steps that it did not keep. */
  const take = (steps: readonly NewStep[], told: readonly number[]) => {
    for (let index = 0; index < told.length; index += 2) {
      const step = steps[(told[index] ?? 0) - 1];
      const what = told[index + 1];
      if (what === FIRST_OF_MODEL) note(steps[0]?.model ?? '');
      if (step === undefined) continue;
      if (what === STEP_NO_ROOM) drops.add(1, 'Redis is nearly full');
      if (what === STEP_NO_ROOM || what === STEP_OVER) marks.over(step.id);
    }
  };

  const send = async (steps: readonly NewStep[], encoded: readonly EncodedStep[], bytes: number) => {
    const model = steps[0]?.model ?? '';
    waitingBytes += bytes;
    try {
      const args = encoded.length === 1 ? (encoded[0]?.args ?? []) : encoded.flatMap((one) => one.args);
      const told = await scripts.append(modelKeys(model), [isFull ? limitsOf.full : limitsOf.begin, ...args]);
      isProven = true;
      take(steps, told as readonly number[]);
    } catch (error) {
      drop(steps, isOutOfMemory(error) ? 'Redis is full' : 'Redis does not answer', error);
    }
    waitingBytes -= bytes;
    if (connection.isReady) void marks.flush();
  };

  const write = (steps: readonly NewStep[]): Promise<void> => {
    const now = clock.nowUs();
    if (now - lookedUs > MEMORY_LOOK_MS * 1000) void look();
    const model = steps[0]?.model ?? '';
    if (now - (notedUs.get(model) ?? Number.NEGATIVE_INFINITY) > noteAgainUs) note(model);
    const encoded = steps.map(encode);
    let bytes = 0;
    for (const one of encoded) bytes += one.bytes;
    return send(steps, encoded, bytes);
  };

  /** Sends what there is a way for, at once; resolves when Redis has answered. Never rejects. */
  const writeAll = async (steps: readonly NewStep[]): Promise<void> => {
    if (!connection.isReady) return drop(steps, 'Redis is away', connection.lastError);
    if (waitingBytes >= WAITING_BYTES_MAX) return drop(steps, 'Redis is slow');
    try {
      if (steps.length <= STEPS_PER_CALL_MAX) return await write(steps);
      const sent: Promise<void>[] = [];
      for (let from = 0; from < steps.length; from += STEPS_PER_CALL_MAX) {
        sent.push(write(steps.slice(from, from + STEPS_PER_CALL_MAX)));
      }
      await Promise.all(sent);
    } catch (error) {
      drop(steps, 'they cannot be written', error);
    }
  };

  /** Resolves once there is a connection, or has been none for so long that nobody waits for it any more. */
  const dial = (): Promise<void> => {
    isDialling = true;
    const first = async () => {
      await connection.ready();
      await look();
    };
    return answeredWithin(first(), ANSWER_MS_MAX, clock)
      .catch(() => {})
      .finally(() => {
        isDialling = false;
      });
  };

  connection.watch((event) => {
    isProven = false;
    if (event === 'lost') return;
    void look();
    void marks.flush();
  });

  const isKept = ({ id, step }: NewStep): boolean => {
    if (step.step === 0) {
      marks.forget(id);
      return true;
    }
    const skipped = marks.skips(id, step.step);
    if (skipped === 'gap') drops.add(1, 'of its recording one was not');
    return skipped === undefined;
  };

  /** `isEnough`: asked once all was sent, where nothing has to be waited for before. */
  const begin = (given: readonly NewStep[], isEnough: () => boolean): Promise<void> | undefined => {
    const steps = given.filter(isKept);
    if (steps.length === 0 || isClosed) return undefined;
    dialled ??= dial();
    if (isDialling) return dialled.then(() => waits.settled(writeAll(steps)));
    const written = writeAll(steps);
    return isEnough() ? undefined : waits.settled(written);
  };

  return {
    async append(steps) {
      await begin(steps, () => false);
    },
    send: (steps) => begin(steps, () => isProven && connection.isHandedOver),
    async end(ends) {
      // Behind the steps that wait for the connection.
      if (isDialling) await dialled;
      for (const { id, model, worker, state } of ends) marks.add({ id, model, worker, state });
      if (!connection.isReady) return;
      await answeredWithin(marks.flush(), ANSWER_MS_MAX, clock).catch(() => {});
    },
    isOver: marks.isOver,
    get dropped() {
      return drops.steps;
    },
    close() {
      isClosed = true;
      waits.close();
      connection.close();
    },
  };
}
