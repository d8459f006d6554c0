/** Batches over HTTP: a file of requests of one model in, a file of results out. */
import { type ErrorInfo, NereidError } from '@nereid/protocol';
import type { BulkRecord } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Bulk } from '../bulk.ts';
import { timeText } from '../time-text.ts';
import { openAnswerStream } from './answer-stream.ts';
import { bulkListing, bulkResultsAsked, bulkWishes } from './bulk-asked.ts';
import { bulkFile, CODING } from './bulk-file.ts';
import { CODINGS_TAKEN } from './content-coding.ts';
import { sendJson } from './errors.ts';
import type { InferContext } from './infer.ts';
import { answer, refuse } from './jobs-answer.ts';
import { CONFLICT_STATUS, dropOnly } from './jobs-change.ts';
import { waitMs } from './jobs-headers.ts';
import { modelOf } from './model-path.ts';
import { readQuery } from './query.ts';

export interface BulkContext {
  /** Undefined without Redis. */
  readonly bulk: Bulk | undefined;
  /** How to get one, for the answer then. */
  readonly redisHint: string;
}

type Context = BulkContext & Pick<InferContext, 'clientSignal' | 'closing' | 'log'>;

/** Lines whose results are read at a time. */
const PAGE_LINES = 256;

/** POST /v2/models/{m}[/versions/{v}]/batches: 202 once Redis has every line. */
export function submitBulk(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const bulk = bulkOf(context);
    const { name, version } = modelOf(request);
    const refusal = bulk.refusal(name, version);
    if (refusal !== undefined) {
      refuse(context, reply, refusal);
      return;
    }
    const wishes = bulkWishes(request.headers);
    const file = await bulkFile(request.raw, bulk);
    if (file === undefined) {
      reply.header('Accept-Encoding', CODINGS_TAKEN);
      refuse(context, reply, CODING);
      return;
    }
    const submitted = await bulk.submit(name, version, file, wishes).finally(() => request.raw.resume());
    if (!submitted.ok) {
      refuse(context, reply, submitted.error, submitted.status);
      return;
    }
    const { record } = submitted;
    reply.code(202).header('Location', bulkUrl(record));
    sendBulk(context, reply, record);
  });
}

/** GET /v2/models/{m}/batches[?after=&limit=]: the newest first. */
export function listBulk(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const { after, limit } = bulkListing(request.query);
    const { batches, next } = await bulkOf(context).page(modelOf(request).name, after, limit);
    sendJson(reply, JSON.stringify({ batches: batches.map(bulkJson), next: next === '' ? null : next }));
  });
}

/** GET /v2/batches/{id}[?wait=30s] */
export function bulkStatus(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const id = idOf(request);
    const signal = context.clientSignal(request.raw.socket);
    const record = await bulkOf(context).find(id, waitMs(request.query), signal);
    if (record === undefined) refuse(context, reply, unknownBulk(id));
    else sendBulk(context, reply, record);
  });
}

/** DELETE /v2/batches/{id}[?only=cancel|remove]: cancels it, or removes one that is over. */
export function dropBulk(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const id = idOf(request);
    const { only } = readQuery(request, ['only']);
    const dropped = await bulkOf(context).drop(id, dropOnly(only));
    if (dropped === undefined) refuse(context, reply, unknownBulk(id));
    else if (dropped.ok) sendBulk(context, reply, dropped.value);
    else refuse(context, reply, dropped.error, CONFLICT_STATUS);
  });
}

/** GET /v2/batches/{id}/results[?status=&after=&limit=]: those that there are, in the order of their lines. */
export function bulkResults(context: Context, request: FastifyRequest, reply: FastifyReply): void {
  answer(context, reply, async () => {
    const id = idOf(request);
    const bulk = bulkOf(context);
    const { ok, from, limit } = bulkResultsAsked(request.query);
    const record = await bulk.find(id, 0);
    if (record === undefined) {
      refuse(context, reply, unknownBulk(id));
      return;
    }
    const signal = context.clientSignal(request.raw.socket);
    // Before the answer begins, so that what goes wrong can still be told.
    let page = await bulk.results(id, from, Math.min(PAGE_LINES, record.lines - from));
    const stream = openAnswerStream({ reply, signal, closing: context.closing }, 'application/x-ndjson', [
      'Nereid-Batch-State',
      record.state,
    ]);
    let left = limit;
    for (let at = from; ; ) {
      const wanted = page.filter((result) => ok === undefined || result.ok === ok).slice(0, left);
      left -= wanted.length;
      const text = wanted.map((result) => `${result.text}\n`).join('');
      if (text !== '' && !(await stream.write(text))) return;
      at += PAGE_LINES;
      if (at >= record.lines || left === 0) break;
      try {
        page = await bulk.results(id, at, Math.min(PAGE_LINES, record.lines - at));
      } catch (thrown) {
        // Cut, or it would look like all there is.
        context.log.warn({ err: thrown, batch: id }, 'results of a batch not sent to their end');
        reply.raw.destroy();
        return;
      }
    }
    stream.end();
  });
}

function bulkOf({ bulk, redisHint }: BulkContext): Bulk {
  if (bulk === undefined) throw new NereidError('UNAVAILABLE', `batches need a Redis: ${redisHint}`);
  return bulk;
}

function idOf(request: FastifyRequest): string {
  return (request.params as { readonly batch: string }).batch;
}

function unknownBulk(id: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `batch '${id}' is not found`, field: 'id' };
}

function bulkUrl({ id }: BulkRecord): string {
  return `/v2/batches/${id}`;
}

function sendBulk(context: Context, reply: FastifyReply, record: BulkRecord): void {
  if (context.closing()) reply.header('Connection', 'close');
  sendJson(reply, JSON.stringify(bulkJson(record)));
}

/** What is not known is absent: JSON leaves undefined members out. */
function bulkJson(record: BulkRecord) {
  const { id, model, version, state, lines, completed, failed, finishedMs, ttlS } = record;
  return {
    id,
    model_name: model,
    model_version: version === '' ? undefined : version,
    state,
    created_at: timeText(record.createdMs),
    started_at: timeText(record.startedMs),
    finished_at: timeText(finishedMs),
    request_counts: { total: lines, completed, failed },
    attempts_max: record.attempts,
    deadline_at: timeText(record.deadlineMs === 0 ? undefined : record.deadlineMs),
    error: record.error,
    results_url: `${bulkUrl(record)}/results`,
    expires_at: timeText(finishedMs === undefined ? undefined : finishedMs + ttlS * 1000),
  };
}
