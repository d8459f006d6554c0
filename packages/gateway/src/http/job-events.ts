import { setMaxListeners } from 'node:events';
import { NereidError } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { unknownJob } from '../job-ends.ts';
import { jobEvent } from '../job-event.ts';
import type { FollowedJob, Jobs } from '../jobs.ts';
import type { AnswerStream } from './answer-stream.ts';
import { openEventStream } from './event-stream.ts';
import { answer, askedJob, type JobRouteContext, refuse } from './jobs-answer.ts';

export interface JobEventsContext extends JobRouteContext {
  /** The server is stopping: readers of endless answers go on at another gateway. */
  readonly stopping: AbortSignal;
}

/** Says to a browser that there is nothing more, so that it does not ask again. */
const NO_CONTENT_STATUS = 204;
const EVENT_ID = /^[0-9]{1,15}-[0-9]{1,15}$/;
/** When a client that lost its connection asks again, which is in good time for a gateway that is started anew. */
const BEGINNING = 'retry: 1000\n\n';
/** A comment, so that nobody on the way takes the connection for dead. */
const QUIET = ':\n\n';

/**
 * GET /v2/jobs/{id}/events: what becomes of a job, as server-sent events from its beginning to its end, or on from the
 * one in `Last-Event-ID`, at whichever gateway.
 */
export function jobEvents(context: JobEventsContext, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { jobs, id, signal } = askedJob(context, request);
    const after = lastEventId(request.headers['last-event-id']);
    const leaving = new AbortController();
    const leave = () => leaving.abort();
    for (const each of [signal, context.stopping]) each.addEventListener('abort', leave);
    if (signal.aborted || context.stopping.aborted) leave();
    try {
      const followed = await jobs.follow(id, after, leaving.signal);
      if (followed === undefined) {
        refuse(context, reply, unknownJob(id));
        return;
      }
      await tell({ context, request, reply, id, signal, jobs }, followed);
    } finally {
      for (const each of [signal, context.stopping]) each.removeEventListener('abort', leave);
      leave();
    }
  });
}

interface Telling {
  readonly context: JobEventsContext;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly id: string;
  readonly signal: AbortSignal;
  readonly jobs: Jobs;
}

/** Sends news until there are no more, at the pace of their reader; the answer begins with the first. */
async function tell({ context, request, reply, id, signal, jobs }: Telling, { news, forms }: FollowedJob) {
  let stream: AnswerStream | undefined;
  try {
    for await (const each of news) {
      if (each.kind === 'unknown') {
        refuse(context, reply, unknownJob(id));
        return;
      }
      if (stream === undefined) {
        const account = context.openBytes(request.raw.socket, reply.raw);
        stream = openEventStream({ reply, account, signal, closing: context.closing }, 200);
        await stream.write(BEGINNING);
      }
      const text = each.kind === 'quiet' ? QUIET : eventText(jobEvent(each, id, forms, jobs));
      if (!(await stream.write(text))) return;
    }
  } catch (thrown) {
    if (stream === undefined) throw thrown;
    context.log.warn({ err: thrown, job: id }, "a job's events broke off");
    reply.raw.destroy();
    return;
  }
  if (stream === undefined) reply.code(NO_CONTENT_STATUS).send();
  else stream.end();
}

/** A signal to which any number of answers listen. */
export function stopSignal(): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  return controller;
}

function lastEventId(given: unknown): string | undefined {
  if (given === undefined || given === '') return undefined;
  if (typeof given === 'string' && EVENT_ID.test(given)) return given;
  throw new NereidError('INVALID_ARG', `Last-Event-ID must be the id of an event of the job, got: ${String(given)}`, {
    field: 'Last-Event-ID',
  });
}

function eventText({ id, name, data }: ReturnType<typeof jobEvent>): string {
  const lines = [...(id === undefined ? [] : [`id: ${id}`]), `event: ${name}`, `data: ${JSON.stringify(data)}`];
  return `${lines.join('\n')}\n\n`;
}
