import { startPrivateRedis } from '../private-redis.mjs';
import { startRedisCluster } from './redis-cluster.mjs';
import { startSentinelRedis } from './redis-sentinel.mjs';

/** Ways to run Redis, each with the faults of it that rounds may have. Large tensors go through files in one only. */
export const REDIS_FORMS = {
  single: {
    start: () => startPrivateRedis(['--appendonly', 'yes', '--appendfsync', 'everysec']),
    faults: ['redis'],
    blobsInFiles: true,
  },
  cluster: { start: startRedisCluster, faults: [], blobsInFiles: false },
  sentinel: { start: startSentinelRedis, faults: ['failover'], blobsInFiles: false },
};
