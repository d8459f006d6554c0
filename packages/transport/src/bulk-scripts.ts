import type { RedisClient } from './redis-connection.ts';
import { defineScript, type RedisScript } from './redis-scripts.ts';

/** Work that was accepted ends, also where Redis is full: of the memory that it takes, more is given back at its end. */
const ALLOW_OOM = '#!lua flags=allow-oom\n';

/** KEYS: record, lines, results, done; `now`: wall-clock milliseconds. */
const FINISH = `
local function finish(state, now)
  redis.call('HSET', KEYS[1], 'state', state, 'finished', now)
  redis.call('UNLINK', KEYS[2], KEYS[4])
  local ttl = tonumber(redis.call('HGET', KEYS[1], 'ttl'))
  redis.call('EXPIRE', KEYS[1], ttl)
  redis.call('EXPIRE', KEYS[3], ttl)
  return state
end
`;

/**
 * KEYS: as above; ARGV: now, then of each line its number, 'completed' or 'failed', and the result's text. Answers the
 * state, or false where there is no batch. A line that has a result keeps it.
 */
const SETTLE = `${ALLOW_OOM}${FINISH}
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'waiting' and state ~= 'running' then return state end
local completed, failed = 0, 0
for i = 2, #ARGV, 3 do
  local ok = ARGV[i + 1] == 'completed'
  if redis.call('HSETNX', KEYS[3], ARGV[i], (ok and 'c' or 'f') .. ARGV[i + 2]) == 1 then
    redis.call('SETBIT', KEYS[4], ARGV[i], 1)
    if ok then completed = completed + 1 else failed = failed + 1 end
  end
end
completed = redis.call('HINCRBY', KEYS[1], 'completed', completed)
failed = redis.call('HINCRBY', KEYS[1], 'failed', failed)
if state == 'waiting' then redis.call('HSET', KEYS[1], 'state', 'running', 'started', ARGV[1]) end
if completed + failed >= tonumber(redis.call('HGET', KEYS[1], 'count')) then return finish('completed', ARGV[1]) end
return 'running'
`;

/** KEYS: as above; ARGV: now, the state that it ends in, why where it failed. */
const END = `${ALLOW_OOM}${FINISH}
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'waiting' and state ~= 'running' then
  -- Written each time, since who ends it may wait for the disk.
  if state and state ~= 'uploading' then redis.call('HSET', KEYS[1], 'state', state) end
  return state
end
if ARGV[3] then redis.call('HSET', KEYS[1], 'error', ARGV[3]) end
return finish(ARGV[2], ARGV[1])
`;

/** KEYS: lines; ARGV: number of the chunk, which stays so that those behind it are found. */
const CLEAR = `${ALLOW_OOM}
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then redis.call('HSET', KEYS[1], ARGV[1], '') end
return 1
`;

/** KEYS: record, lines; ARGV: how many lines. Answers 1, or 0 where the upload was forgotten. Harmless to repeat. */
const COMMIT = `${ALLOW_OOM}
local state = redis.call('HGET', KEYS[1], 'state')
if not state then return 0 end
-- Written each time, since who commits may wait for the disk.
if state == 'uploading' or state == 'waiting' then
  redis.call('HSET', KEYS[1], 'state', 'waiting', 'count', ARGV[1])
  redis.call('PERSIST', KEYS[1])
  redis.call('PERSIST', KEYS[2])
end
return 1
`;

/** KEYS: record, lines; ARGV: TTL in seconds, number of the chunk, its text. Answers 1, or 0 where the upload was forgotten. */
const PUT = `
if redis.call('HGET', KEYS[1], 'state') ~= 'uploading' then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[1])
return 1
`;

export interface BulkScripts {
  readonly put: RedisScript;
  readonly commit: RedisScript;
  readonly settle: RedisScript;
  readonly end: RedisScript;
  readonly clear: RedisScript;
}

export function bulkScripts(client: RedisClient): BulkScripts {
  return {
    put: defineScript(client, 'nereidBulkPut', PUT, 2),
    commit: defineScript(client, 'nereidBulkCommit', COMMIT, 2),
    settle: defineScript(client, 'nereidBulkSettle', SETTLE, 4),
    end: defineScript(client, 'nereidBulkEnd', END, 4),
    clear: defineScript(client, 'nereidBulkClear', CLEAR, 1),
  };
}
