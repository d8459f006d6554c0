import { type Clock, type Log, pause } from '@nereid/runtime';
import { Cluster, type Redis } from 'ioredis';
import { parsePublicJobId, type QueueKind } from './jobs-names.ts';
import { jobOfPayload } from './jobs-payloads.ts';
import type { RedisClient } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';

export interface PayloadSweepParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly client: () => RedisClient;
  readonly keys: RedisKeys;
  /** Whether a job of that public id is there and not completed, or its dead letter is. */
  readonly isNeeded: (publicId: string) => Promise<boolean>;
  readonly signal: AbortSignal;
}

const EVERY_MS = 600_000;
/** Nobody else sweeps within this. */
const TURN_S = 540;
/** From when the payloads of a job are written to its add, at most. */
const ADD_MS_MAX = 60_000;
const SCAN_COUNT = 256;
/** Stands in a key for any reference. */
const ANY = '-';

/**
 * Now and then, in one process of all: deletes payloads that have no end to their time, as inputs have, and whose job is
 * not there or is completed, which somebody leaves who dies between two steps, and what is removed with its inputs.
 */
export async function sweepPayloads(parts: PayloadSweepParts): Promise<void> {
  const { clock, log, signal } = parts;
  for (;;) {
    await pause(clock, EVERY_MS, signal);
    if (signal.aborted) return;
    try {
      const turn = await parts.client().set(parts.keys.payloadSweep('all'), '1', 'EX', TURN_S, 'NX');
      if (turn !== null) await sweepOnce(parts);
    } catch (error) {
      log.debug({ err: error }, 'payloads of jobs not swept');
    }
  }
}

/** Twice found not to be needed: a job's payloads are there before it. */
export async function sweepOnce(parts: PayloadSweepParts): Promise<void> {
  const { clock, log, signal } = parts;
  const suspects = await leftBehind(parts);
  if (suspects.size === 0) return;
  await pause(clock, ADD_MS_MAX, signal);
  if (signal.aborted) return;
  let deleted = 0;
  for (const [key, publicId] of suspects) {
    if (await parts.isNeeded(publicId)) continue;
    await parts.client().unlink(key);
    deleted++;
  }
  if (deleted > 0) log.info({ payloads: deleted }, 'payloads that no job needs deleted');
}

/** Keys of payloads without an end to their time that no job needs, with its public id. */
async function leftBehind({ client, keys, isNeeded, signal }: PayloadSweepParts): Promise<ReadonlyMap<string, string>> {
  const suspects = new Map<string, string>();
  const [before = '', after = ''] = keys
    .payload(ANY)
    .split(`{${ANY}}`)
    .map((part, index) => (index === 0 ? `${part}{` : `}${part}`));
  const given = client();
  const servers: readonly Redis[] = given instanceof Cluster ? given.nodes('master') : [given];
  for (const server of servers) {
    let cursor = '0';
    do {
      const [next, found] = await server.scan(cursor, 'MATCH', `${before}*${after}`, 'COUNT', SCAN_COUNT);
      cursor = next;
      for (const key of found) {
        const publicId = jobOfPayload(decodeURIComponent(key.slice(before.length, key.length - after.length)));
        if (publicId === undefined || (await server.ttl(key)) !== -1 || (await isNeeded(publicId))) continue;
        suspects.set(key, publicId);
      }
    } while (cursor !== '0' && !signal.aborted);
  }
  return suspects;
}

/** Whether a job of that public id may run with its inputs: it is there and not completed, or its dead letter is there. */
export async function needsInputs(
  client: RedisClient,
  keyOf: (model: string, kind: QueueKind, name: string) => string,
  publicId: string,
): Promise<boolean> {
  const known = parsePublicJobId(publicId);
  if (known === undefined) return false;
  const { model, id } = known;
  const [job, completed, letter] = await Promise.all([
    client.exists(keyOf(model, 'infer', id)),
    client.zscore(keyOf(model, 'infer', 'completed'), id),
    client.exists(keyOf(model, 'dead', id)),
  ]);
  return (job > 0 && completed === null) || letter > 0;
}
