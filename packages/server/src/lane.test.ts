import { createLog, systemClock } from '@nereid/runtime';
import { connectRedis, timing } from '@nereid/transport';
import { startRedisServer } from '@nereid/transport/redis-server-fixture';
import { expect, test } from 'vitest';
import { openRedisLane } from './lane.ts';

test('a lane that cannot be opened leaves no timer', async () => {
  const redis = await startRedisServer();
  const clock = systemClock();
  try {
    const admin = connectRedis(redis.url, { name: 'test' }).connect('admin');
    await admin.ready();
    // Only the directory asks for the time, so that the checks before it pass.
    await admin.client.call('ACL', 'SETUSER', 'timeless', 'on', '>secret', '~*', '&*', '+@all', '-time');
    admin.close();
    const url = redis.url.replace('unix://', 'unix://timeless:secret@');
    const opened = openRedisLane({
      redis: { url },
      name: 'worker:wk-1',
      always: true,
      clock,
      log: createLog({ level: 'silent' }),
      timing: timing(),
    });
    await expect(opened).rejects.toThrow();
    expect(clock.liveTimers).toBe(0);
  } finally {
    await redis.stop();
  }
});
