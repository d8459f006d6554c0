import type { CloseStatistics, ErrorInfo, QueueStatistics, VersionStatistics } from '@nereid/protocol';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { sendJson } from './errors.ts';
import { sendOwnError } from './jobs-error.ts';

const US_IN_MS = 1000;

/**
 * GET /nereid/v1/queues[?model=m]: what the queues of all READY versions hold, and the batches that they have formed;
 * the cluster's, whichever gateway is asked.
 */
export function queues(gateway: Gateway, request: FastifyRequest, reply: FastifyReply): void {
  const { model } = request.query as { readonly model?: string | readonly string[] };
  if (model !== undefined && typeof model !== 'string') {
    sendOwnError(reply, { code: 'INVALID_ARG', message: "'model' is given more than once", field: 'model' });
    return;
  }
  // Never rejects.
  void gateway.statistics.of(model ?? '', '').then((answer) => {
    if (!answer.ok) {
      sendOwnError(reply, answer.error);
      return;
    }
    const silent = answer.value.find(({ queue }) => queue === undefined);
    if (silent !== undefined) sendOwnError(reply, notTold(silent.name));
    else sendJson(reply, JSON.stringify({ queues: answer.value.flatMap(versionJson) }));
  });
}

function notTold(model: string): ErrorInfo {
  const message = `the coordinator that owns model '${model}' is of an earlier version, which does not tell its queues; update it`;
  return { code: 'UNAVAILABLE', message };
}

function versionJson({ name, version, queue }: VersionStatistics) {
  return queue === undefined ? [] : [{ model: name, version, ...queueJson(queue) }];
}

function queueJson({ waiting, running, pending, oldestUs, levels, closes }: QueueStatistics) {
  return {
    waiting,
    running,
    pending,
    oldest_waiting_ms: oldestUs / US_IN_MS,
    delayed: levels.reduce((sum, level) => sum + level.delayed, 0),
    levels,
    batches: Object.fromEntries(closes.map((close) => [close.reason, closeJson(close)])),
  };
}

function closeJson({ sizes }: CloseStatistics) {
  return {
    count: sizes.reduce((sum, { count }) => sum + count, 0),
    rows: sizes.reduce((sum, { rows, count }) => sum + rows * count, 0),
    sizes: Object.fromEntries(sizes.map(({ rows, count }) => [rows, count])),
  };
}
