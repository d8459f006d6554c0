/** POST /nereid/v1/journal/{id}/replay: what is asked for, and the lines of its answer. */
import {
  decodeJobData,
  isJsonObject,
  type JsonObject,
  NereidError,
  type RequestLimits,
  STOPPING,
  type Tolerance,
  thrownError,
} from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Journal } from '../journal.ts';
import { errorJson } from '../journal-json.ts';
import type { Replacement, ReplayedStep } from '../journal-replay.ts';
import type { EndedReplay, ReplayWishes } from '../journal-replays.ts';
import { type AnswerStream, openAnswerStream } from './answer-stream.ts';
import type { InferContext } from './infer.ts';
import type { JobEventsContext } from './job-events.ts';
import { answer, refuse } from './jobs-answer.ts';
import { foundRecording, type JournalContext } from './journal-found.ts';
import { type Body, readBody } from './read-body.ts';

/** An empty line. */
const QUIET = '\n';

type ReplayContext = JournalContext & InferContext & Pick<JobEventsContext, 'stopping'>;

const MEMBERS = ['version', 'pace', 'from', 'until', 'replace', 'atol', 'rtol', 'record', 'stop_at_first'] as const;

/**
 * Runs a recording again: a line for each compared step, then one for the end. What is wrong before the first step is
 * an ordinary error. A client that leaves ends it.
 */
export function replayRecording(context: ReplayContext, request: FastifyRequest, reply: FastifyReply): void {
  const account = context.openBytes(request.raw.socket, reply.raw);
  const take = (body: Body) =>
    answer(context, reply, async () => {
      if (!body.ok) {
        refuse(context, reply, body.error);
        return;
      }
      const { journal, recording } = await foundRecording(context, request);
      const wishes = replayWishes(body.bytes, recording.model, context.requestLimits);
      const client = context.clientSignal(request.raw.socket);
      const ending = endingSignal(client, context.stopping);
      await run(context, reply, journal.replay(recording, wishes, ending.signal), client).finally(ending.close);
    });
  readBody(request.raw, context.inputBytesMax, take, account);
}

/** That the client has left, or the server stops: a replay at its recorded pace may have hours to go. */
function endingSignal(client: AbortSignal, stopping: AbortSignal): { readonly signal: AbortSignal; close(): void } {
  const controller = new AbortController();
  const leave = () => controller.abort(client.reason);
  const stop = () => controller.abort(thrownError(STOPPING));
  client.addEventListener('abort', leave);
  stopping.addEventListener('abort', stop);
  if (client.aborted) leave();
  if (stopping.aborted) stop();
  return {
    signal: controller.signal,
    close() {
      client.removeEventListener('abort', leave);
      stopping.removeEventListener('abort', stop);
    },
  };
}

async function run(
  context: ReplayContext,
  reply: FastifyReply,
  events: ReturnType<Journal['replay']>,
  client: AbortSignal,
): Promise<void> {
  let stream: AnswerStream | undefined;
  try {
    for await (const event of events) {
      if (stream === undefined && event.type === 'end' && event.failure !== undefined && event.steps === 0)
        throw thrownError(event.failure.error);
      stream ??= openAnswerStream({ reply, signal: client, closing: context.closing }, 'application/x-ndjson');
      if (!(await stream.write(event.type === 'quiet' ? QUIET : replayLine(event)))) return;
    }
    stream?.end();
  } catch (thrown) {
    if (stream === undefined) throw thrown;
    // Cut, or it would look like all there is.
    context.log.warn({ err: thrown }, 'a replay broke off');
    reply.raw.destroy();
  }
}

/** Reads the body of a replay of this model. Throws INVALID_ARG naming the member at fault. */
export function replayWishes(body: Uint8Array, model: string, limits: RequestLimits): ReplayWishes {
  const members = body.byteLength === 0 ? {} : parsed(body);
  const unknown = Object.keys(members).find((name) => !MEMBERS.some((known) => known === name));
  if (unknown !== undefined) throw wrong(unknown, `there is no member '${unknown}': give ${MEMBERS.join(', ')}`);
  return {
    version: versionOf(members.version),
    pace: paceOf(members.pace),
    from: wholeOf('from', members.from) ?? 0,
    until: wholeOf('until', members.until),
    replace: replacement(members.replace, model, limits),
    tolerance: toleranceOf(members.atol, members.rtol),
    record: flagOf('record', members.record),
    stopAtFirst: flagOf('stop_at_first', members.stop_at_first),
  };
}

/** `exact` where neither is given. Throws INVALID_ARG for what is no number from 0. */
export function toleranceOf(atol: unknown, rtol: unknown): Tolerance {
  if (atol === undefined && rtol === undefined) return 'exact';
  return { atol: amountOf('atol', atol), rtol: amountOf('rtol', rtol) };
}

/** A line of the answer. */
export function replayLine(event: ReplayedStep | EndedReplay): string {
  return `${JSON.stringify(event.type === 'step' ? stepLine(event) : endLine(event))}\n`;
}

function stepLine({ step, tookMs, difference }: ReplayedStep) {
  return { step, equal: difference === undefined, took_ms: Math.round(tookMs * 1000) / 1000, difference };
}

function endLine(end: EndedReplay) {
  const { result, steps, compared, firstDifference, failure, recording } = end;
  return {
    result,
    steps,
    compared,
    first_difference: firstDifference,
    error: failure && { ...errorJson(failure.error), step: failure.step },
    recording,
    config_changed: end.configChanged || undefined,
    own_id_shown: end.showsOwnId || undefined,
  };
}

function parsed(body: Uint8Array): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body).toString());
  } catch (failure) {
    throw wrong('body', `failed to parse the request JSON buffer: ${(failure as Error).message}`);
  }
  if (isJsonObject(value)) return value;
  throw wrong('body', `the body must be a JSON object with some of ${MEMBERS.join(', ')}, or empty`);
}

function versionOf(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value === 'string' && /^[0-9]+$/.test(value)) return value;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return String(value);
  throw wrong('version', 'version must be a version\'s number, like "2"');
}

function paceOf(value: unknown): number {
  if (value === undefined || value === 'flat') return 0;
  if (value === 'recorded') return 1;
  if (typeof value === 'number' && Number.isFinite(value) && value > 0) return value;
  throw wrong('pace', "pace must be 'flat', 'recorded' or a factor above 0, like 2 for twice as fast");
}

function wholeOf(name: string, value: unknown): number | undefined {
  if (value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0))
    return value as number | undefined;
  throw wrong(name, `${name} must be the number of a step, from 0`);
}

function amountOf(name: string, value: unknown): number {
  if (value === undefined) return 0;
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
  throw wrong(name, `${name} must be a number from 0`);
}

function flagOf(name: string, value: unknown): boolean {
  if (value === undefined || typeof value === 'boolean') return value === true;
  throw wrong(name, `${name} must be true or false`);
}

function replacement(value: unknown, model: string, limits: RequestLimits): Replacement | undefined {
  if (value === undefined) return undefined;
  const { step, inputs, ...others } = isJsonObject(value) ? value : {};
  const number = wholeOf('replace.step', step);
  if (number === undefined || !Array.isArray(inputs) || Object.keys(others).length > 0)
    throw wrong('replace', 'replace must be {step, inputs: [{name, datatype, shape, data}]}');
  const tensors = decoded(inputs, model, limits);
  const twice = tensors.find(({ name }, at) => tensors.findIndex((other) => other.name === name) < at);
  if (twice !== undefined) throw wrong('replace.inputs', `input '${twice.name}' is there twice`);
  return { step: number, inputs: tensors };
}

/** By the reader of jobs, whose form is what `data=true` shows. */
function decoded(inputs: readonly unknown[], model: string, limits: RequestLimits): Replacement['inputs'] {
  try {
    return decodeJobData({ inputs }, { modelName: model, limits }).request.inputs;
  } catch (thrown) {
    if (!(thrown instanceof NereidError)) throw thrown;
    throw new NereidError(thrown.code, thrown.message, { field: `replace.${thrown.field ?? 'inputs'}`, cause: thrown });
  }
}

function wrong(field: string, message: string): NereidError {
  return new NereidError('INVALID_ARG', message, { field });
}
