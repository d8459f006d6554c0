import type { CallMark } from '@nereid/caller';
import { encodeModelConfig, type ModelRecord } from '@nereid/config';
import {
  type ErrorInfo,
  type InferRequest,
  NereidError,
  type Outcome,
  type RecordedStep,
  type Recording,
  sha256,
  type Tolerance,
  thrownError,
} from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { recordingId } from '@nereid/transport';
import { freshCorrelationId } from './fresh-correlation-id.ts';
import type { Gateway } from './gateway.ts';
import { type Replacement, type ReplayEnd, type ReplayedStep, replay } from './journal-replay.ts';
import { type Quiet, withQuiet } from './quiet-signs.ts';
import { SEQUENCES_LISTED_MAX, type SequencePosition } from './sequences.ts';

/** What a replay is asked for. */
export interface ReplayWishes {
  /** '' for the recorded one. */
  readonly version: string;
  /** Times the recorded speed; 0 for as fast as it goes. */
  readonly pace: number;
  readonly from: number;
  /** Undefined for the recording's end. */
  readonly until: number | undefined;
  readonly replace: Replacement | undefined;
  readonly tolerance: Tolerance;
  readonly record: boolean;
  readonly stopAtFirst: boolean;
}

/** The end of a replay, and what only the gateway knows of it. */
export interface EndedReplay extends ReplayEnd {
  /** Id of the run's own recording, where it was to be recorded. */
  readonly recording: string | undefined;
  /** The model's config or files are others than those that were recorded. */
  readonly configChanged: boolean;
  /** The model was shown an id of the run's own: a sequence with the recorded one goes on. */
  readonly showsOwnId: boolean;
}

export interface ReplaysParts {
  readonly gateway: Pick<Gateway, 'model' | 'infer' | 'inferStream' | 'refusal' | 'sequences'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Steps of a recording from one on. */
  readonly steps: (recording: Recording, from: number) => AsyncIterable<RecordedStep>;
}

/** Replays that this gateway runs now. */
export interface Replays {
  /**
   * Each compared step as it is done, then the end, with signs of life between them. Throws, before the first of them, NOT_FOUND for a model or version
   * that is not there, INVALID_ARG naming the wish at fault, and UNAVAILABLE where too many run.
   */
  run(
    recording: Recording,
    wishes: ReplayWishes,
    signal: AbortSignal,
  ): AsyncGenerator<ReplayedStep | EndedReplay | Quiet, void, undefined>;
}

/** Without a step for so long it gives a sign of life: Node's `fetch` takes a body that is silent for 300 s for dead. */
const QUIET_MS = 15_000;
/** At a time; one more is refused. */
const REPLAYS_MAX = 16;

export function createReplays({ gateway, clock, log, steps: stepsFrom }: ReplaysParts): Replays {
  let running = 0;

  const begin = async (recording: Recording, wishes: ReplayWishes) => {
    const { from, until = recording.steps, replace } = wishes;
    checkRange(recording, from, until);
    const version = wishes.version === '' ? recording.version : wishes.version;
    const found = gateway.model(recording.model, version);
    if (!found.ok) throw notThere(found.error, recording);
    if (replace !== undefined) await checkReplaced(recording, replace, until);
    return { found, until };
  };

  const checkReplaced = async (recording: Recording, { step, inputs }: Replacement, until: number) => {
    if (step >= until) throw wrong('replace.step', `step ${step} is not run: the steps are those before ${until}`);
    const recorded = await firstOf(stepsFrom(recording, step));
    if (recorded !== undefined && recorded.effect !== 'applied') {
      throw wrong('replace.step', `step ${step} is not run: it was ${recorded.effect} when it was recorded`);
    }
    const names = recorded?.request.inputs.map(({ name }) => name) ?? [];
    const unknown = inputs.find(({ name }) => !names.includes(name));
    if (unknown === undefined) return;
    const there = `step ${step} of recording '${recording.id}' has the inputs ${names.join(', ')}`;
    throw wrong('replace.inputs', `there is no input '${unknown.name}': ${there}`);
  };

  const evict = async (model: string, session: string) => {
    const evicted = await gateway.sequences.evict(session, model);
    if (evicted.ok || evicted.error.code === 'NOT_FOUND') return;
    log.warn({ err: evicted.error, model, session }, 'a replayed sequence is left until it has been idle for too long');
  };

  /** Whether a sequence of the model has the recorded id; where its owner does not say, it may. */
  const isLive = async ({ model, correlationId }: Recording): Promise<boolean> => {
    let after: SequencePosition | undefined;
    do {
      const page = await gateway.sequences.list({ model, limit: SEQUENCES_LISTED_MAX, after });
      if (!page.ok || page.value.sequences.some((each) => each.correlationId === correlationId)) return true;
      after = page.value.next;
    } while (after !== undefined);
    return false;
  };

  return {
    async *run(recording, wishes, signal) {
      if (running >= REPLAYS_MAX) throw thrownError(BUSY);
      running++;
      try {
        const { found, until } = await begin(recording, wishes);
        const { model } = recording;
        const keepsSequences = found.signature.sequence?.iterative === false;
        const parts = {
          clock,
          infer: found.signature.decoupled ? streamed(gateway) : single(gateway),
          refusal: gateway.refusal,
          evict: async (session: string) => {
            if (keepsSequences) await evict(model, session);
          },
        };
        const plan = {
          ...wishes,
          recording,
          steps: stepsFrom(recording, 0),
          version: found.version,
          correlationId: freshCorrelationId(recording.correlationId, 'replay'),
          showsOwnId: keepsSequences && (await isLive(recording)),
          until,
        };
        const { showsOwnId } = plan;
        const configChanged = isChanged(found.record, recording);
        for await (const event of withQuiet(replay(parts, plan, signal), clock, QUIET_MS)) {
          if (event.type !== 'end') yield event;
          else
            yield {
              ...event,
              configChanged,
              showsOwnId,
              recording: wishes.record ? recordedAs(model, event) : undefined,
            };
        }
      } finally {
        running--;
      }
    },
  };
}

type Infer = (request: InferRequest, signal: AbortSignal, mark: CallMark) => AsyncIterable<Outcome>;

function single(gateway: Pick<Gateway, 'infer'>): Infer {
  return async function* (request, signal, mark) {
    yield await gateway.infer(request, signal, 0, mark);
  };
}

function streamed(gateway: Pick<Gateway, 'inferStream'>): Infer {
  return async function* (request, signal, mark) {
    for await (const { outcome, last } of gateway.inferStream(request, signal, 0, undefined, mark)) {
      // The end alone, which is no answer of the model.
      if (!last || !outcome.ok || outcome.response.outputs.length > 0) yield outcome;
    }
  };
}

async function firstOf(steps: AsyncIterable<RecordedStep>): Promise<RecordedStep | undefined> {
  for await (const step of steps) return step;
  return undefined;
}

function recordedAs(model: string, { session, steps }: ReplayEnd): string | undefined {
  return steps === 0 ? undefined : recordingId(model, session);
}

function isChanged({ config, contentHash }: ModelRecord, recording: Recording): boolean {
  return (
    sha256(Buffer.from(encodeModelConfig(config))) !== recording.configSha256 || contentHash !== recording.contentHash
  );
}

function notThere({ code, message, ...error }: ErrorInfo, { version }: Recording): NereidError {
  const fix = code === 'NOT_FOUND' ? `: load it, or name a version that is served (${version} was recorded)` : '';
  return thrownError({ ...error, code, message: `${message}${fix}`, field: 'version' });
}

function checkRange({ id, steps }: Recording, from: number, until: number): void {
  const has = `recording '${id}' has the steps 0 to ${steps - 1}`;
  if (from >= steps) throw wrong('from', `there is no step ${from}: ${has}`);
  if (until > steps) throw wrong('until', `there is no step ${until - 1}: ${has}`);
  if (until <= from) throw wrong('until', `until ${until} must be behind from ${from}`);
}

function wrong(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}

const BUSY: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: `this gateway runs ${REPLAYS_MAX} replays already; come again once one is over`,
};
