import { Cluster, Redis } from 'ioredis';

/**
 * The connection of a BullMQ client as plain data, which a child process can be told: `{ nodes }` of a Cluster, else the
 * options of ioredis.
 */
export function bullmqConnection(spec) {
  // BullMQ asks for this of connections that block.
  if (spec.nodes !== undefined) return new Cluster(spec.nodes, { redisOptions: { maxRetriesPerRequest: null } });
  return new Redis({ ...spec, maxRetriesPerRequest: null });
}
