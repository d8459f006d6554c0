/**
 * Copies of requests to aliases, sent to another version than the client's, and compared with what the client got.
 *
 * A copy is sent behind the client's request and never before it; nothing waits for it. There is a bound to how many are
 * on their way and to what they hold; beyond it requests go without. At the stop of the gateway all are cancelled.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type AliasRoute,
  type CallMark,
  type CallOptions,
  createLeaving,
  pointOf,
  type StreamedAnswer,
} from '@nereid/caller';
import type { AliasShadow } from '@nereid/config';
import type { InferRequest, Outcome, StepDifference, Tensor } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { freshCorrelationId } from './fresh-correlation-id.ts';
import { createShadowSequences, type ShadowSequence } from './shadow-sequences.ts';
import { readAnswers } from './shadow-stream.ts';
import { SHADOW_RESULTS, type ShadowResult, shadowVerdict } from './shadow-verdict.ts';

/** Of one alias, the newest first. */
const DIFFERENCES_MAX = 10;
/** What is remembered of aliases that are gone makes way for others. */
const TOLD_MAX = 1_024;

/** A copy whose answer was another one, or that had none. */
export interface ShadowDifference extends Omit<StepDifference, 'step'> {
  /** When it was found, milliseconds since the epoch. */
  readonly atMs: number;
  readonly requestId: string;
  /** 0n or '' for none. */
  readonly correlationId: bigint | string;
  /** That answered the client, and the copy. */
  readonly version: string;
  readonly shadowVersion: string;
}

/** Of one alias at this gateway, since its start. */
export interface ShadowTold {
  readonly counts: Readonly<Record<ShadowResult, number>>;
  /** The newest first. */
  readonly differences: readonly ShadowDifference[];
}

type Routed = NonNullable<CallOptions['routed']>;

export interface Shadows {
  /** What `send` gives; a copy goes behind it, if there is to be one. `send` tells the route that the request takes. */
  infer(request: InferRequest, send: (routed: Routed) => Promise<Outcome>): Promise<Outcome>;
  /** The same of a model that is not decoupled, whose one answer is read from a stream. */
  stream(
    request: InferRequest,
    send: (routed: Routed) => AsyncIterableIterator<StreamedAnswer>,
  ): AsyncIterableIterator<StreamedAnswer>;
  told(alias: string): ShadowTold;
  /** All that were copied from, by name. */
  aliases(): Iterable<readonly [string, ShadowTold['counts']]>;
  /** Cancels those on their way, and sends no more. */
  close(): void;
}

/** As of LIMITS. */
export interface ShadowLimits {
  readonly shadow_requests_max: number;
  readonly shadow_bytes_max: number;
  readonly shadow_sequences_max: number;
  readonly shadow_wait_ms: number;
}

export interface ShadowsParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: ShadowLimits;
  infer(request: InferRequest, options: Pick<CallOptions, 'signal' | 'mark' | 'msLeft'>): Promise<Outcome>;
  /** Ends the sequence of that session. */
  evict(session: string, model: string): Promise<unknown>;
}

interface Told {
  readonly counts: Record<ShadowResult, number>;
  differences: readonly ShadowDifference[];
}

/** A request with where it went, and its answer. */
interface Original {
  readonly route: AliasRoute;
  readonly shadow: AliasShadow;
  readonly request: InferRequest;
  readonly answered: Promise<Outcome>;
}

export function createShadows({ clock, log, limits, infer, evict }: ShadowsParts): Shadows {
  const told = new Map<string, Told>();
  const sequences = createShadowSequences();
  const leaving = new Set<() => void>();
  let onTheWay = 0;
  let bytes = 0;
  let closed = false;

  const toldOf = (alias: string): Told => {
    let found = told.get(alias);
    if (found === undefined) {
      const [oldest] = told.keys();
      if (told.size >= TOLD_MAX && oldest !== undefined) told.delete(oldest);
      found = { counts: noCounts(), differences: [] };
      told.set(alias, found);
    }
    return found;
  };

  const count = ({ route }: Pick<Original, 'route'>, result: ShadowResult) => {
    toldOf(route.alias.name).counts[result]++;
  };

  /** No more of its steps are copied, and what it has elsewhere is given back. */
  const breakOff = (sequence: ShadowSequence, why: string) => {
    sequences.forget(sequence);
    for (const leave of [...sequence.leaving]) leave();
    if (sequence.session === '') return;
    const { session, model } = sequence;
    evict(session, model).catch((err: unknown) => log.debug({ err, session, model, why }, 'a shadow sequence is left'));
  };

  const hasRoom = ({ inputs }: InferRequest) =>
    onTheWay < limits.shadow_requests_max && bytes + bytesOf(inputs) <= limits.shadow_bytes_max;

  const compare = (original: Original, answer: Outcome, copied: Outcome): ShadowResult => {
    const { route, shadow, request } = original;
    const { result, difference } = shadowVerdict(answer, copied, shadow);
    count(original, result);
    if (difference === undefined) return result;
    const kept = toldOf(route.alias.name);
    const entry: ShadowDifference = {
      ...difference,
      atMs: clock.wallMs(),
      requestId: request.id,
      correlationId: request.correlationId,
      version: answer.ok ? answer.response.modelVersion : route.version,
      shadowVersion: shadow.version,
    };
    kept.differences = [entry, ...kept.differences].slice(0, DIFFERENCES_MAX);
    return result;
  };

  const copy = async (original: Original, sequence: ShadowSequence | undefined): Promise<void> => {
    const { route, shadow, request, answered } = original;
    const own = createLeaving();
    const leave = () => own.leave('it is a copy of a request, which nobody waits for');
    let dropped = false;
    const drop = () => {
      dropped = true;
      leave();
    };
    const mark: CallMark = { door: 'inner', id: '' };
    const holds = bytesOf(request.inputs);
    onTheWay++;
    bytes += holds;
    const timer = clock.at(clock.nowUs() + limits.shadow_wait_ms * 1000, leave);
    leaving.add(leave);
    sequence?.leaving.add(drop);
    try {
      const copied = infer(copyOf(route, shadow, request, sequence), {
        signal: own,
        mark,
        msLeft: limits.shadow_wait_ms,
      });
      if (sequence !== undefined && request.sequenceStart) sequence.session = mark.id;
      // Who has left without an answer wants none of the copy's either.
      void answered.then((outcome) => {
        if (!outcome.ok && outcome.error.code === 'CANCELLED') leave();
      });
      const [answer, other] = await Promise.all([answered, copied]);
      // First the client's answer is sent.
      await nextTurn();
      if (closed) return;
      if (dropped) {
        count(original, 'dropped');
        return;
      }
      const result = compare(original, answer, other);
      if (sequence !== undefined && (result === 'failed' || result === 'skipped')) breakOff(sequence, 'a step failed');
    } finally {
      timer.cancel();
      leaving.delete(leave);
      sequence?.leaving.delete(drop);
      onTheWay--;
      bytes -= holds;
    }
  };

  const open = ({ route, shadow, request }: Original): ShadowSequence | undefined => {
    if (!isChosen(route, shadow) || shadow.version === route.version) return undefined;
    const { oldest } = sequences;
    if (sequences.size >= limits.shadow_sequences_max && oldest !== undefined) {
      count({ route }, 'dropped');
      breakOff(oldest, 'there are too many');
    }
    return {
      key: route.key,
      model: route.alias.model,
      version: shadow.version,
      correlationId: freshCorrelationId(request.correlationId, 'shadow'),
      leaving: new Set(),
      session: '',
      next: request.sequenceStep,
      ended: false,
    };
  };

  const copyStep = (original: Original) => {
    const { route, request } = original;
    const step = sequences.step(route, request, () => open(original));
    if (step.type === 'broken') {
      breakOff(step.sequence, 'its steps are not whole here');
      count(original, 'dropped');
      if (request.sequenceStart) copyStep(original);
      return;
    }
    if (step.type !== 'copy') return;
    if (hasRoom(request)) start(original, step.sequence);
    else {
      breakOff(step.sequence, 'there are too many');
      count(original, 'dropped');
    }
  };

  const start = (original: Original, sequence: ShadowSequence | undefined) => {
    copy(original, sequence).catch((err: unknown) => log.error({ err }, 'a shadow copy failed'));
  };

  const follow = (route: AliasRoute | undefined, request: InferRequest, answered: Promise<Outcome>) => {
    const shadow = route?.alias.shadow;
    if (route === undefined || shadow === undefined || closed) return;
    const original = { route, shadow, request, answered };
    if (route.isStep) copyStep(original);
    else if (!isChosen(route, shadow) || shadow.version === route.version) return;
    else if (hasRoom(request)) start(original, undefined);
    else count(original, 'dropped');
  };

  return {
    infer(request, send) {
      let route: AliasRoute | undefined;
      const answered = send((taken) => {
        route = taken;
      });
      follow(route, request, answered);
      return answered;
    },
    stream(request, send) {
      let route: AliasRoute | undefined;
      const answers = send((taken) => {
        route = taken;
      });
      if (route === undefined) return answers;
      const { read, answered } = readAnswers(answers);
      follow(route, request, answered);
      return read;
    },
    told: (alias) => told.get(alias) ?? { counts: noCounts(), differences: [] },
    aliases: () => [...told].map(([name, { counts }]) => [name, counts] as const),
    close() {
      closed = true;
      for (const sequence of sequences.all()) sequences.forget(sequence);
      for (const leave of [...leaving]) leave();
    },
  };
}

function noCounts(): Record<ShadowResult, number> {
  return Object.fromEntries(SHADOW_RESULTS.map((result) => [result, 0])) as Record<ShadowResult, number>;
}

/** Another point than the one that its version is chosen by, or the copies would all be of one version's requests. */
function isChosen({ key }: AliasRoute, { share }: AliasShadow): boolean {
  return pointOf(`shadow\n${key}`) < share;
}

/** Its tensors are its own, since what is put down of them elsewhere goes with their request. */
function copyOf(
  { alias, isStep }: AliasRoute,
  { version }: AliasShadow,
  request: InferRequest,
  sequence: ShadowSequence | undefined,
): InferRequest {
  const { sequenceStep: _, ...rest } = request;
  const common = {
    ...rest,
    modelName: alias.model,
    inputs: request.inputs.map((tensor) => ({ ...tensor })),
    // The client's own load is not that of the copies: no time in the queue is too long for one.
    timeoutUs: 0n,
    journal: false,
  };
  if (sequence === undefined) return { ...common, modelVersion: version, ...(isStep ? {} : { background: true }) };
  const { correlationId, version: its } = sequence;
  return { ...common, modelVersion: its, correlationId, shownId: request.correlationId };
}

function bytesOf(tensors: readonly Tensor[]): number {
  return tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
}
