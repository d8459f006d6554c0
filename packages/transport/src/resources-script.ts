/**
 * The script of shared resources. Every call goes the same way: refuse what comes late, notice a new Redis,
 * drop who is no longer registered, take the claim in, grant what can be granted (resource-claims.ts says the
 * rule once more). Times are Redis' own.
 */

/** KEYS, in this order; all with the directory's hash tag, for the registrations are its. */
export const RESOURCE_KEYS = ['resourceClaims', 'resourceMeta', 'directoryProcessesUntil'] as const;

/** What is answered to a call that others of its worker have overtaken. */
export const LATE = 'late';

/**
 * ARGV: channel, worker, number of the call, run as of the last answer or empty, grace_ms, ttl_ms, and the
 * claim as JSON `{limits, held, wanted, wish}` or empty for none any more.
 *
 * The answer is `{LATE}` or `{run, 1 where the wish is granted, others whose wishes could be}`; these are
 * published, with blanks between them, too.
 */
const BODY = `
local claims, meta, processesUntil = KEYS[1], KEYS[2], KEYS[3]
local channel, worker, seq, sinceRun = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local graceMs, ttlMs, text = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(n) return string.format('%.0f', n) end

local before = redis.call('HGET', claims, worker)
before = before and cjson.decode(before)
if before and seq <= before.seq then return {'${LATE}'} end

-- As in the directory: a run is a Redis process and the data in it.
local info = redis.pcall('INFO', 'server')
local process = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local created = redis.call('HGET', meta, 'created')
if not created then
  created = whole(now)
  redis.call('HSET', meta, 'created', created)
end
local run = process .. '.' .. created

-- Until all that hold something had the time to say so again nothing is granted and nobody counts as gone.
-- A new run is known by what is here of the one before, and where that is lost by a worker that has met it.
local grace = tonumber(redis.call('HGET', meta, 'grace') or '0')
local lastRun = redis.call('HGET', meta, 'run')
if lastRun ~= run then redis.call('HSET', meta, 'run', run) end
local isNew = lastRun and lastRun ~= run or sinceRun ~= '' and sinceRun ~= run
if isNew and redis.call('HGET', meta, 'graced') ~= run then
  grace = now + graceMs
  redis.call('HSET', meta, 'graced', run, 'grace', whole(grace))
end
local settled = now >= grace

local function add(to, counts)
  for name, count in pairs(counts) do to[name] = (to[name] or 0) + count end
end
local granted = 0
local function grant(claim)
  add(claim.held, claim.wanted)
  claim.wanted, claim.ticket, claim.granted = {}, 0, claim.wish
  granted = 1
end

local all, mine = {}, nil
if text == '' then
  redis.call('HDEL', claims, worker)
else
  mine = cjson.decode(text)
  mine.seq, mine.ticket, mine.granted, mine.id = seq, 0, 0, worker
  if next(mine.wanted) then
    if before and before.granted == mine.wish then
      grant(mine)
    elseif before and before.wish == mine.wish and before.ticket > 0 then
      mine.ticket = before.ticket
    else
      mine.ticket = tonumber(redis.call('HGET', meta, 'tickets') or '0') + 1
      redis.call('HSET', meta, 'tickets', whole(mine.ticket))
    end
  end
  all[1] = mine
end
local flat = redis.call('HGETALL', claims)
for n = 1, #flat, 2 do
  if flat[n] ~= worker then
    local lasts = tonumber(redis.call('ZSCORE', processesUntil, flat[n]) or '0')
    if settled and lasts <= now then
      redis.call('HDEL', claims, flat[n])
    else
      local claim = cjson.decode(flat[n + 1])
      claim.id = flat[n]
      all[#all + 1] = claim
    end
  end
end

local wake = {}
if settled then
  local limits, used, blocked, waiting = {}, {}, {}, {}
  for _, claim in ipairs(all) do
    for name, count in pairs(claim.limits) do limits[name] = math.max(limits[name] or 0, count) end
    add(used, claim.held)
    if claim.ticket > 0 then waiting[#waiting + 1] = claim end
  end
  table.sort(waiting, function(a, b) return a.ticket < b.ticket end)
  for _, claim in ipairs(waiting) do
    local fits = true
    for name, count in pairs(claim.wanted) do
      if blocked[name] or (used[name] or 0) + count > (limits[name] or 0) then fits = false end
    end
    if fits then
      add(used, claim.wanted)
      if claim == mine then grant(mine) else wake[#wake + 1] = claim.id end
    else
      for name in pairs(claim.wanted) do blocked[name] = true end
    end
  end
end

if mine then
  mine.id = nil
  redis.call('HSET', claims, worker, cjson.encode(mine))
end
redis.call('PEXPIRE', claims, ttlMs)
redis.call('PEXPIRE', meta, ttlMs)
if #wake > 0 then redis.call('PUBLISH', channel, table.concat(wake, ' ')) end
return {run, granted, wake}
`;

/** `time` is the Lua expression for `{seconds, microseconds}`; tests give one that they can move. */
export function resourcesScript(time = "redis.call('TIME')"): string {
  return `local time = ${time}${BODY}`;
}
