/** Recordings as files, out and in (docs/replay-files.md). */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { recordingJson } from '../journal-json.ts';
import { type AnswerStream, openAnswerStream } from './answer-stream.ts';
import { bodyParts, CODING } from './bulk-file.ts';
import { CODINGS_TAKEN } from './content-coding.ts';
import type { InferContext } from './infer.ts';
import { answer, refuse } from './jobs-answer.ts';
import { foundRecording, type JournalContext, journalOf, sendValue } from './journal-found.ts';
import { flagOf, readQuery } from './query.ts';

type Context = JournalContext & InferContext;

/** GET /nereid/v1/journal/{id}/export[?gzip=true]: the file, at the pace of its reader. */
export function exportRecording(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const asked = readQuery(request, ['gzip']);
    const gzip = flagOf('gzip', asked.gzip);
    const { journal, recording } = await foundRecording(context, request);
    const signal = context.clientSignal(request.raw.socket);
    let stream: AnswerStream | undefined;
    try {
      for await (const chunk of journal.exported(recording, gzip)) {
        // It begins with what can be read, so that what goes wrong before can still be told.
        stream ??= openAnswerStream(
          { reply, signal, closing: context.closing },
          gzip ? 'application/gzip' : 'application/octet-stream',
          ['Content-Disposition', `attachment; filename="${fileName(recording.id, gzip)}"`],
        );
        if (!(await stream.write(chunk))) return;
      }
      stream?.end();
    } catch (thrown) {
      if (stream === undefined) throw thrown;
      // Cut, or it would look like all there is.
      context.log.warn({ err: thrown, recording: recording.id }, 'a recording was not exported to its end');
      reply.raw.destroy();
    }
  });
}

/** POST /nereid/v1/journal with a file, gzipped or not: 201 with the recording, once Redis has all of it. */
export function importRecording(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const journal = journalOf(context);
    const parts = bodyParts(request.raw);
    if (parts === undefined) {
      reply.header('Accept-Encoding', CODINGS_TAKEN);
      refuse(context, reply, CODING);
      return;
    }
    // What is left of it is read, so that the client reads the answer.
    const recording = await journal.imported(parts).finally(() => request.raw.resume());
    reply.code(201).header('Location', `/nereid/v1/journal/${recording.id}`);
    sendValue(context, reply, recordingJson(recording));
  });
}

/** Any system takes it for one. */
function fileName(id: string, gzip: boolean): string {
  return `${id.replaceAll(/[^\w.~-]/g, '_')}.nrj${gzip ? '.gz' : ''}`;
}
