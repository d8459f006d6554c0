/** Records steps in Redis, beside the requests that they are of. */
import { answeredWithin, type Clock, type Log, type Timer } from '@nereid/runtime';
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
import { type EncodedStep, encodeStep, recordingName } from './journal-step.ts';
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

/** An append that is under way. */
interface Call {
  readonly dueUs: number;
  readonly resolve: () => void;
  isLate: boolean;
}

/** On a connection of its own, which is dialled at the first use. */
export function createJournalWriter({ connector, keys, clock, log, limits }: JournalWriterParts): JournalWriter {
  const connection = connector.connect('journal');
  const { client } = connection;
  const scripts = journalScripts(client);
  const limitsOf = { begin: limitsText(limits, true), full: limitsText(limits, false) };
  const keysOf = new Map<string, readonly string[]>();
  const notedUs = new Map<string, number>();
  const noteAgainUs = Math.min(NOTE_MS_MAX, (limits.age_s * 1000) / 2) * 1000;
  /** In the order of their sending. */
  const calls = new Set<Call>();
  let lateCalls = 0;
  let timer: Timer | undefined;
  let waitingBytes = 0;
  let isFull = false;
  let lookedUs = Number.NEGATIVE_INFINITY;
  let dropped = 0;
  let loggedUs = Number.NEGATIVE_INFINITY;
  let loggedDropped = 0;
  let dialled: Promise<void> | undefined;
  let isDialling = false;

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
    dropped += steps.length;
    for (const { id, model, step } of steps) {
      marks.add({ id, model, worker: step.worker, state: 'gap', last: step.step });
    }
    if (clock.nowUs() - loggedUs < LOG_PAUSE_MS * 1000) return;
    log.warn({ err, steps: dropped - loggedDropped, dropped }, `journal: steps not recorded: ${why}`);
    loggedUs = clock.nowUs();
    loggedDropped = dropped;
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

  const watchTime = () => {
    if (timer !== undefined) return;
    for (const { dueUs } of calls) {
      timer = clock.at(dueUs, endLate);
      return;
    }
  };
  const endLate = () => {
    timer = undefined;
    const now = clock.nowUs();
    for (const call of calls) {
      if (call.dueUs > now) break;
      calls.delete(call);
      call.isLate = true;
      lateCalls++;
      call.resolve();
    }
    watchTime();
  };
  const settle = (call: Call | undefined) => {
    if (call?.isLate === true) lateCalls--;
    else if (call !== undefined) calls.delete(call);
    call?.resolve();
    if (calls.size > 0) return;
    timer?.cancel();
    timer = undefined;
  };

  /** What the script says of steps that it did not keep. */
  const take = (steps: readonly NewStep[], told: readonly number[]) => {
    for (let index = 0; index < told.length; index += 2) {
      const step = steps[(told[index] ?? 0) - 1];
      const what = told[index + 1];
      if (what === FIRST_OF_MODEL) note(steps[0]?.model ?? '');
      if (step === undefined) continue;
      if (what === STEP_NO_ROOM) drop([step], 'Redis is nearly full');
      if (what === STEP_NO_ROOM || what === STEP_OVER) marks.over(step.id);
    }
  };

  const send = async (steps: readonly NewStep[], encoded: readonly EncodedStep[], bytes: number) => {
    const model = steps[0]?.model ?? '';
    waitingBytes += bytes;
    try {
      const args = encoded.length === 1 ? (encoded[0]?.args ?? []) : encoded.flatMap((one) => one.args);
      const told = await scripts.append(modelKeys(model), [isFull ? limitsOf.full : limitsOf.begin, ...args]);
      take(steps, told as readonly number[]);
    } catch (error) {
      drop(steps, isOutOfMemory(error) ? 'Redis is full' : 'Redis does not answer', error);
    } finally {
      waitingBytes -= bytes;
    }
  };

  /** While an earlier call is late, nobody waits for another. */
  const sendWithin = (steps: readonly NewStep[]): Promise<void> => {
    if (waitingBytes >= WAITING_BYTES_MAX) {
      drop(steps, 'Redis is slow');
      return Promise.resolve();
    }
    const now = clock.nowUs();
    if (now - lookedUs > MEMORY_LOOK_MS * 1000) void look();
    const model = steps[0]?.model ?? '';
    if (now - (notedUs.get(model) ?? Number.NEGATIVE_INFINITY) > noteAgainUs) note(model);
    const encoded = steps.map((step) => encodeStep(step));
    let bytes = 0;
    for (const one of encoded) bytes += one.bytes;
    return new Promise((resolve) => {
      let call: Call | undefined;
      if (lateCalls === 0) {
        call = { dueUs: now + ANSWER_MS_MAX * 1000, resolve, isLate: false };
        calls.add(call);
        watchTime();
      } else {
        resolve();
      }
      void send(steps, encoded, bytes).finally(() => {
        settle(call);
        if (connection.isReady) void marks.flush();
      });
    });
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
    if (skipped === 'gap') dropped++;
    return skipped === undefined;
  };

  const append = async (given: readonly NewStep[]) => {
    const steps = given.filter(isKept);
    if (steps.length === 0) return;
    dialled ??= dial();
    if (isDialling) await dialled;
    if (!connection.isReady) return drop(steps, 'Redis is away', connection.lastError);
    if (steps.length <= STEPS_PER_CALL_MAX) return sendWithin(steps);
    const sent: Promise<void>[] = [];
    for (let from = 0; from < steps.length; from += STEPS_PER_CALL_MAX) {
      sent.push(sendWithin(steps.slice(from, from + STEPS_PER_CALL_MAX)));
    }
    await Promise.all(sent);
  };

  return {
    append,
    async end(ends) {
      for (const { id, model, worker, state } of ends) marks.add({ id, model, worker, state });
      if (!connection.isReady) return;
      await answeredWithin(marks.flush(), ANSWER_MS_MAX, clock).catch(() => {});
    },
    isOver: marks.isOver,
    get dropped() {
      return dropped;
    },
    close() {
      timer?.cancel();
      connection.close();
    },
  };
}
