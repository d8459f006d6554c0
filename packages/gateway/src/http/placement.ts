/** Where models are held, and what there is to hold them (docs/placement.md). */
import { errorInfo, type PlaceMessage } from '@nereid/protocol';
import type { ProcessRecord } from '@nereid/transport';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Gateway } from '../gateway.ts';
import { sendJson } from './errors.ts';
import { sendOwnError } from './jobs-error.ts';
import { modelOf } from './model-path.ts';
import type { Route } from './restrict-routes.ts';

const MODEL = '/nereid/v1/models/:model(^.+$)';

export function placementRoutes(gateway: Gateway): readonly Route[] {
  const place = (action: PlaceMessage['action']) => (request: FastifyRequest, reply: FastifyReply) =>
    placement(gateway, action, request, reply);
  return [
    ['GET', '/nereid/v1/workers', (_request, reply) => workers(gateway, reply)],
    ['GET', '/nereid/v1/capacity', (_request, reply) => capacity(gateway, reply)],
    ['GET', `${MODEL}/placement`, place('show')],
    ['POST', `${MODEL}/pin`, place('pin')],
    ['DELETE', `${MODEL}/pin`, place('unpin')],
    ['POST', `${MODEL}/prefetch`, place('prefetch')],
  ];
}

/** Each answers with where the model is held, and why, after what it has changed. */
function placement(
  gateway: Gateway,
  action: PlaceMessage['action'],
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  gateway.placements.of(modelOf(request).name, action).then(
    (placed) => {
      if (placed.ok) sendJson(reply, placed.value);
      else sendOwnError(reply, placed.error);
    },
    (thrown) => sendOwnError(reply, errorInfo(thrown)),
  );
}

function workers(gateway: Gateway, reply: FastifyReply): void {
  sendJson(reply, JSON.stringify({ workers: gateway.placements.workers().map(workerJson) }));
}

function workerJson({ id, draining, hosting }: ProcessRecord) {
  return {
    worker: id,
    state: draining ? 'draining' : 'ready',
    labels: hosting?.labels ?? {},
    gpus: hosting?.gpus ?? 0,
    memory: (hosting?.memory ?? []).map(({ device, budget, used, fixed, idle_ms }) => ({
      device,
      budget_bytes: budget,
      used_bytes: used,
      fixed_bytes: fixed,
      idle_ms,
    })),
    loads: hosting?.loads ?? 0,
    evictions: hosting?.evictions ?? 0,
    refusals: hosting?.refusals ?? 0,
  };
}

function capacity(gateway: Gateway, reply: FastifyReply): void {
  const { placements } = gateway;
  const live = placements.workers().filter(({ draining }) => !draining);
  sendJson(reply, JSON.stringify({ workers: live.length, devices: placements.capacity() }));
}
