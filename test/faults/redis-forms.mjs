import { startPrivateRedis } from '../private-redis.mjs';
import { startRedisCluster } from './redis-cluster.mjs';
import { startSentinelRedis } from './redis-sentinel.mjs';

/** Ways to run Redis, each with the faults of it that rounds may have; the first can sync as `--jobs-fsync` says. Large tensors go through files in one only. */
export const REDIS_FORMS = {
  single: {
    start: (fsync = 'everysec') => startPrivateRedis(['--appendonly', 'yes', '--appendfsync', fsync]),
    faults: ['redis', 'redis-restart', 'redis-kill'],
    blobsInFiles: true,
  },
  cluster: { start: startRedisCluster, faults: [], blobsInFiles: false },
  sentinel: { start: startSentinelRedis, faults: ['failover'], blobsInFiles: false },
};
