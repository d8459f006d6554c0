/**
 * The directory's one script. Every call, whatever its verb, goes the same way: refuse what comes
 * late, notice a new Redis, drop what has expired, do the verb, answer what changed. All times are
 * Redis' own, so no two processes' clocks are ever compared.
 */

/** KEYS, in this order; all with one hash tag (docs/decisions/0007-directory-in-one-slot.md). */
export const DIRECTORY_KEYS = [
  'directoryMeta',
  'directoryProcesses',
  'directoryProcessesUntil',
  'directoryOwners',
  'directoryOwnersUntil',
  'directoryWriters',
  'directoryWritersUntil',
  'directoryRecords',
  'directoryRecordVersions',
  'directoryValues',
  'directoryValueVersions',
] as const;

/**
 * Verbs and their arguments after the nine common ones (redis-directory.ts):
 * - beat lease_ms, n, n × (id, role, state, ttl_ms, run, until), then any × (model, owner, number,
 *   run); `run` and `until` as of the last good renewal
 * - register id, role, state, ttl_ms; retell id, role, state, which renews nothing; leave id
 * - acquire model, owner, lease_ms, above, last holder (1 or 0); release model, owner
 * - publish model, text, own lease's owner or empty; withdraw model, own lease's owner or empty
 * - value name, text, version of it that is known, 1 to set it only where no later one is there, names at most
 *
 * The answer is `{'late'}`, or `{run, version, now, result}` and, if the caller has another version,
 * `processes, owners, names of records, records changed since, versions of values, values changed since`
 * as flat lists.
 */
const BODY = `
local meta, processes, processesUntil, owners, ownersUntil = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local writers, writersUntil, records, recordVersions = KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local values, valueVersions = KEYS[10], KEYS[11]
local verb, channel, writer, seq = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local sinceRun, sinceVersion, highest = ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7])
local graceMs, writerMs = tonumber(ARGV[8]), tonumber(ARGV[9])
local a = 9
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local changed = false

local function whole(n) return string.format('%.0f', n) end

local function put(hash, until_, field, value, ms)
  redis.call('HSET', hash, field, value)
  redis.call('ZADD', until_, whole(now + ms), field)
end

local function drop(hash, until_, field)
  redis.call('ZREM', until_, field)
  return redis.call('HDEL', hash, field) == 1
end

-- A command of a given-up connection may run after later ones of the same writer: it must do nothing.
if seq <= tonumber(redis.call('HGET', writers, writer) or '0') then return {'late'} end
put(writers, writersUntil, writer, ARGV[4], writerMs)

-- A run is a Redis process and the data in it: a restart, a failover and a wipe each begin another.
local info = redis.pcall('INFO', 'server')
local process = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local created = redis.call('HGET', meta, 'created')
if not created then
  created = whole(now)
  redis.call('HSET', meta, 'created', created)
end
local run = process .. '.' .. created

-- Epochs never fall behind what a living process has seen.
local epoch = tonumber(redis.call('HGET', meta, 'epoch') or '0')
local function raise(number)
  if number > epoch then
    epoch = number
    redis.call('HSET', meta, 'epoch', whole(epoch))
  end
end
raise(highest)

-- R11: the first survivor of another run begins the grace; until its end nobody expires.
local grace = tonumber(redis.call('HGET', meta, 'grace') or '0')
if sinceRun ~= '' and sinceRun ~= run and redis.call('HGET', meta, 'graced') ~= run then
  grace = now + graceMs
  redis.call('HSET', meta, 'graced', run, 'grace', whole(grace))
  for _, until_ in ipairs({processesUntil, ownersUntil}) do
    for _, field in ipairs(redis.call('ZRANGE', until_, 0, -1)) do
      redis.call('ZADD', until_, 'XX', 'GT', whole(grace), field)
    end
  end
end

local function expire(hash, until_)
  local any = false
  for _, field in ipairs(redis.call('ZRANGEBYSCORE', until_, '-inf', whole(now))) do
    any = drop(hash, until_, field) or any
  end
  return any
end
expire(writers, writersUntil)
if expire(processes, processesUntil) then changed = true end
if expire(owners, ownersUntil) then changed = true end

local function ownerOf(model)
  local held = redis.call('HGET', owners, model)
  if not held then return nil, nil end
  return string.match(held, '^%d+ (.*)$'), held
end

local function take(model, owner, ms)
  raise(epoch + 1)
  put(owners, ownersUntil, model, whole(epoch) .. ' ' .. owner, ms)
  changed = true
  return epoch
end

local version = tonumber(redis.call('HGET', meta, 'version') or '0')
local result = 1

if verb == 'beat' then
  local leaseMs, count = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local kept, leases = {}, {}
  local at = a + 3
  for n = 1, count do
    local id, role, state, ms = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
    local since, lasts = ARGV[at + 4], tonumber(ARGV[at + 5])
    kept[n] = 1
    if redis.call('ZSCORE', processesUntil, id) then
      redis.call('ZADD', processesUntil, 'XX', whole(now + ms), id)
    -- A worker that a new run has not got may come back only while nobody can have held it for gone (R10).
    elseif role ~= 'worker' or (since ~= run and now < lasts) then
      put(processes, processesUntil, id, role .. ' ' .. state, ms)
      changed = true
    else
      kept[n] = 0
    end
    at = at + 6
  end
  while at <= #ARGV do
    local model, owner, number, since = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
    local holder, held = ownerOf(model)
    if held == number .. ' ' .. owner then
      redis.call('ZADD', ownersUntil, 'XX', whole(now + leaseMs), model)
      leases[#leases + 1] = tonumber(number)
    elseif since ~= run and (holder == nil or holder == owner) then
      leases[#leases + 1] = take(model, owner, leaseMs)
    else
      leases[#leases + 1] = 0
    end
    at = at + 4
  end
  result = {kept, leases}
elseif verb == 'register' then
  put(processes, processesUntil, ARGV[a + 1], ARGV[a + 2] .. ' ' .. ARGV[a + 3], tonumber(ARGV[a + 4]))
  changed = true
elseif verb == 'retell' then
  if redis.call('HEXISTS', processes, ARGV[a + 1]) == 1 then
    redis.call('HSET', processes, ARGV[a + 1], ARGV[a + 2] .. ' ' .. ARGV[a + 3])
    changed = true
  end
elseif verb == 'leave' then
  if drop(processes, processesUntil, ARGV[a + 1]) then changed = true end
elseif verb == 'acquire' then
  local model, owner = ARGV[a + 1], ARGV[a + 2]
  local holder = ownerOf(model)
  if holder == owner or (holder == nil and (now >= grace or ARGV[a + 5] == '1')) then
    raise(tonumber(ARGV[a + 4]))
    result = take(model, owner, tonumber(ARGV[a + 3]))
  else
    result = 0
  end
elseif verb == 'release' then
  if ownerOf(ARGV[a + 1]) == ARGV[a + 2] then
    drop(owners, ownersUntil, ARGV[a + 1])
    changed = true
  end
elseif verb == 'value' then
  local name, known = ARGV[a + 1], tonumber(ARGV[a + 3])
  local held = tonumber(string.match(redis.call('HGET', valueVersions, name) or '', ' (%d+)$') or '0')
  if ARGV[a + 4] == '1' and held > known then
    result = 0
  elseif held == 0 and redis.call('HLEN', valueVersions) >= tonumber(ARGV[a + 5]) then
    result = -1
  else
    -- As with epochs: a version is never below what the caller has seen, also where Redis forgot it.
    result = math.max(held, known) + 1
    redis.call('HSET', values, name, ARGV[a + 2])
    redis.call('HSET', valueVersions, name, whole(version + 1) .. ' ' .. whole(result))
    changed = true
  end
else
  -- The owner says what its models are: a former one must not overwrite that.
  local model = ARGV[a + 1]
  local holder = ownerOf(model)
  if holder ~= nil and holder ~= ARGV[#ARGV] then
    result = 0
  elseif verb == 'publish' then
    redis.call('HSET', records, model, ARGV[a + 2])
    redis.call('HSET', recordVersions, model, whole(version + 1))
    changed = true
  elseif redis.call('HDEL', recordVersions, model) == 1 then
    redis.call('HDEL', records, model)
    changed = true
  end
end

-- R39: what was shared ends with the last process, so that flags hold again for the next ones.
if now >= grace and redis.call('HLEN', processes) == 0 and redis.call('DEL', valueVersions, values) > 0 then
  changed = true
end

if changed then
  version = version + 1
  redis.call('HSET', meta, 'version', whole(version))
  redis.call('PUBLISH', channel, run .. ' ' .. whole(version))
end
if sinceRun == run and sinceVersion == version then return {run, version, now, result} end

local names, news = {}, {}
local versions = redis.call('HGETALL', recordVersions)
for n = 1, #versions, 2 do
  names[#names + 1] = versions[n]
  if sinceRun ~= run or tonumber(versions[n + 1]) > sinceVersion then
    news[#news + 1] = versions[n]
    news[#news + 1] = redis.call('HGET', records, versions[n])
  end
end
local shared, texts = redis.call('HGETALL', valueVersions), {}
for n = 1, #shared, 2 do
  if sinceRun ~= run or tonumber(string.match(shared[n + 1], '^%d+')) > sinceVersion then
    texts[#texts + 1] = shared[n]
    texts[#texts + 1] = redis.call('HGET', values, shared[n])
  end
end
local living = redis.call('HGETALL', processes)
return {run, version, now, result, living, redis.call('HGETALL', owners), names, news, shared, texts}
`;

/** `time` is the Lua expression for `{seconds, microseconds}`; tests give one that they can move. */
export function directoryScript(time = "redis.call('TIME')"): string {
  return `local time = ${time}${BODY}`;
}
