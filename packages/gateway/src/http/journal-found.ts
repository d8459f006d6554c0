/** What the routes of recordings share. */
import { NereidError, type Recording } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Journal } from '../journal.ts';
import { sendJson } from './errors.ts';
import type { InferContext } from './infer.ts';

export interface JournalContext {
  /** Undefined without Redis. */
  readonly journal: Journal | undefined;
  /** How to get one, for the answer then. */
  readonly redisHint: string;
}

/** Throws UNAVAILABLE without Redis. */
export function journalOf({ journal, redisHint }: JournalContext): Journal {
  if (journal === undefined) throw new NereidError('UNAVAILABLE', `recordings need a Redis: ${redisHint}`);
  return journal;
}

/** The recording that the path names. Throws NOT_FOUND where there is none, UNAVAILABLE without Redis. */
export async function foundRecording(context: JournalContext, request: FastifyRequest): Promise<FoundRecording> {
  const journal = journalOf(context);
  return { journal, recording: await recordingOf(journal, idOf(request)) };
}

interface FoundRecording {
  readonly journal: Journal;
  readonly recording: Recording;
}

export async function recordingOf(journal: Journal, id: string, field = 'id'): Promise<Recording> {
  const recording = await journal.find(id);
  if (recording === undefined) throw unknownRecording(id, field);
  return recording;
}

/** As it was sent: its own escapes are part of it. */
export function idOf(request: FastifyRequest): string {
  return (request.params as { readonly recording: string }).recording;
}

export function unknownRecording(id: string, field = 'id'): NereidError {
  const message = `recording '${id}' is not found: it never was, was removed or has run out; 'nereid replay ls' lists those that are there`;
  return new NereidError('NOT_FOUND', message, { field });
}

export function sendValue(context: Pick<InferContext, 'closing'>, reply: FastifyReply, value: object): void {
  if (context.closing()) reply.header('Connection', 'close');
  sendJson(reply, JSON.stringify(value));
}
