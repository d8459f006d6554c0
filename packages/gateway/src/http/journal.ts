/** Recordings: what the journal has of requests (docs/replay.md). All are admin calls, since they show what clients have sent. */
import { RECORDING_STATES, type RecordingState } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ListPlace } from '../journal.ts';
import { recordingJson, stepJson } from '../journal-json.ts';
import type { JobEventsContext } from './job-events.ts';
import { answer } from './jobs-answer.ts';
import { exportRecording, importRecording } from './journal-file.ts';
import {
  foundRecording,
  idOf,
  type JournalContext,
  journalOf,
  recordingOf,
  sendValue,
  unknownRecording,
} from './journal-found.ts';
import { replayRecording, toleranceOf } from './journal-replay.ts';
import { flagOf, limitOf, readQuery, wrongQuery } from './query.ts';
import type { Route } from './restrict-routes.ts';

type Context = JournalContext & JobEventsContext;

export const JOURNAL = '/nereid/v1/journal';
const RECORDING = `${JOURNAL}/:recording(^.+$)`;
export const RECORDINGS_LISTED_MAX = 1_000;
export const STEPS_LISTED_MAX = 1_000;
/** Of tensors in one answer; a step that passes it begins the next one. */
const SHOWN_BYTES_MAX = 16_777_216;

export function journalRoutes(context: Context): readonly Route[] {
  return [
    ['GET', JOURNAL, (request, reply) => listRecordings(context, request, reply)],
    ['GET', RECORDING, (request, reply) => showRecording(context, request, reply)],
    ['DELETE', RECORDING, (request, reply) => removeRecording(context, request, reply)],
    ['POST', JOURNAL, (request, reply) => importRecording(context, request, reply)],
    ['GET', `${RECORDING}/export`, (request, reply) => exportRecording(context, request, reply)],
    ['POST', `${RECORDING}/replay`, (request, reply) => replayRecording(context, request, reply)],
    ['GET', `${RECORDING}/diff`, (request, reply) => diffRecordings(context, request, reply)],
  ];
}

/** GET /nereid/v1/journal[?model=&state=&sequence_id=&limit=&after=]: of each model the newest first. */
function listRecordings(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const asked = readQuery(request, ['model', 'state', 'sequence_id', 'limit', 'after']);
    const { recordings, next } = await journalOf(context).list({
      model: asked.model ?? '',
      state: stateOf(asked.state),
      sequenceId: asked.sequence_id,
      limit: limitOf(asked.limit, RECORDINGS_LISTED_MAX),
      after: placeOf(asked.after),
    });
    sendValue(context, reply, {
      recordings: recordings.map((recording) => recordingJson(recording)),
      next: next && `${next.model}/${next.behind}`,
    });
  });
}

/** GET /nereid/v1/journal/{id}[?from=&limit=&data=true]: the recording and its steps. */
function showRecording(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const asked = readQuery(request, ['from', 'limit', 'data']);
    const from = stepOf('from', asked.from) ?? 0;
    const limit = limitOf(asked.limit, STEPS_LISTED_MAX);
    const withData = flagOf('data', asked.data);
    const { journal, recording } = await foundRecording(context, request);
    const bytesMax = withData ? SHOWN_BYTES_MAX : Number.POSITIVE_INFINITY;
    const applied = await journal.applied(recording);
    const steps = await journal.steps(recording, from, limit, bytesMax);
    const next = from + steps.length;
    sendValue(context, reply, {
      recording: recordingJson(recording, applied),
      steps: steps.map((step) => stepJson(step, withData)),
      next: steps.length > 0 && next < recording.steps ? next : undefined,
    });
  });
}

/** DELETE /nereid/v1/journal/{id} */
function removeRecording(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const id = idOf(request);
    const removed = await journalOf(context).remove(id);
    if (removed === undefined) throw unknownRecording(id);
    sendValue(context, reply, recordingJson(removed));
  });
}

/** GET /nereid/v1/journal/{id}/diff?with={id}[&atol=&rtol=]: whether two recordings have the same answers. */
function diffRecordings(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const asked = readQuery(request, ['with', 'atol', 'rtol']);
    if (asked.with === undefined) throw wrongQuery('with', "give the id of the other recording as 'with'");
    const tolerance = toleranceOf(numberOf(asked.atol), numberOf(asked.rtol));
    const { journal, recording } = await foundRecording(context, request);
    const other = await recordingOf(journal, asked.with, 'with');
    const { compared, firstDifference: first } = await journal.diff(recording, other, tolerance);
    const result = first === undefined ? 'equal' : 'differs';
    sendValue(context, reply, { result, compared, first_difference: first });
  });
}

function stateOf(text: string | undefined): RecordingState | undefined {
  const state = RECORDING_STATES.find((known) => known === text);
  if (text === undefined || state !== undefined) return state;
  throw wrongQuery('state', `state must be one of ${RECORDING_STATES.join(', ')}, got: ${text}`);
}

function placeOf(text: string | undefined): ListPlace | undefined {
  if (text === undefined) return undefined;
  // No model's name has a slash.
  const slash = text.indexOf('/');
  if (slash > 0) return { model: text.slice(0, slash), behind: text.slice(slash + 1) };
  throw wrongQuery('after', `after must be the 'next' of an earlier answer, got: ${text}`);
}

function stepOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined || /^[0-9]{1,15}$/.test(text)) return text === undefined ? undefined : Number(text);
  throw wrongQuery(name, `${name} must be the number of a step, from 0, got: ${text}`);
}

/** What is no number is left for who reads it to refuse. */
function numberOf(text: string | undefined): number | string | undefined {
  return text === undefined || text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text);
}
