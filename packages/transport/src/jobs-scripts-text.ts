/**
 * Our scripts over BullMQ's queues, made of the functions of the installed BullMQ. They leave what a row of its own
 * calls would leave (jobs-differential.test.ts), with what is the same for all jobs of a call done once.
 */
import { GATE_FUNCTIONS, PARKED_MAX } from './jobs-gate-text.ts';
import type { BullLua } from './jobs-lua.ts';

/** Keys of a queue, in the order in which the scripts have them. */
export const QUEUE_KEYS = [
  'wait',
  'active',
  'prioritized',
  'events',
  'stalled',
  'limiter',
  'delayed',
  'paused',
  'meta',
  'pc',
  'marker',
  'completed',
  'failed',
  'metrics:completed',
  'metrics:failed',
] as const;

/** What a job's end takes of ARGV, in this order. `keep…` as of BullMQ's `keepJobs`, empty where it says nothing. */
export const END_FIELDS = [
  'id',
  'token',
  'target',
  'value',
  'trace',
  'keepCount',
  'keepAge',
  'keepLimit',
  'attempts',
  'note',
  'notesMax',
] as const;

/** Before the first end: prefix, now, token, lock in ms, name of who takes, how many to take. */
const TURN_ARGS = 6;

const KEYS_BY_NAME = QUEUE_KEYS.map((key, index) => `local ${luaName(key)} = KEYS[${index + 1}]`).join('\n');

function luaName(key: string): string {
  return `${key.replace(':', '_')}Key`;
}

const HEAD = (lua: BullLua) =>
  `local rcall = redis.call\n${lua.functions}\n${KEYS_BY_NAME}\nlocal prefix, now = ARGV[1], ARGV[2]\n`;

/** A lock that is another's, or nobody's, lets nothing be written (docs/protocol.md R32). */
const LOCK_CODE = `
local function lockCode(jobKey, owned)
  local held = rcall('GET', jobKey .. ':lock')
  if held == owned then return 0 end
  return held and -6 or -2
end
`;

/**
 * Ends jobs, each with its step's gate, then takes up to a number. A job with a parent, children or a deduplication id, one that failed and one
 * that is not there (any more) is ended by BullMQ's own script; of any other the same is done here in fewer commands.
 * Answers a code for each end, the jobs taken, how long none may be taken in ms, and when the next delayed one is due.
 */
export function turnScript(lua: BullLua): string {
  return `${HEAD(lua)}
local function finish(KEYS, ARGV)
${lua.body('finish')}
end

${GATE_FUNCTIONS}
local token, lockMs, name, count = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local codes, locks, unlocked, isDrainChecked = {}, {}, {}, true
local keep

-- Of a row of jobs that keep alike, what is too much goes once, after the last.
local function trim()
  if not keep then return end
  for _ = 1, keep.jobs do
    if not keep.age then break end
    local before = rcall('ZCARD', completedKey)
    removeJobsByMaxAge(now, keep.age, completedKey, prefix, keep.limit)
    if before - rcall('ZCARD', completedKey) < keep.limit then break end
  end
  if keep.count and keep.count > 0 then removeJobsByMaxCount(keep.count, completedKey, prefix) end
  keep = nil
end

local function keepAs(count, age, limit)
  if keep and keep.count == count and keep.age == age and keep.limit == limit then
    keep.jobs = keep.jobs + 1
  else
    trim()
    keep = { count = count, age = age, limit = limit, jobs = 1 }
  end
end

${LOCK_CODE}
local function putNote(jobKey, note, most)
  if note == '' then return end
  local rows = rcall('RPUSH', jobKey .. ':logs', note)
  if rows > most then rcall('LTRIM', jobKey .. ':logs', -most, -1) end
end

local function finishByBullMQ(job)
  trim()
  local target, field = failedKey, 'failedReason'
  local metrics, fields = metrics_failedKey, cmsgpack.pack({ 'failedReason', job.value, 'stacktrace', job.trace })
  if job.target == 'completed' then
    target, field, metrics, fields = completedKey, 'returnvalue', metrics_completedKey, ''
  end
  local opts = cmsgpack.pack({
    token = job.token,
    keepJobs = { count = job.count, age = job.age, limit = job.limit },
    attempts = job.attempts,
    maxMetricsSize = '',
  })
  local code = finish({
    waitKey, activeKey, prioritizedKey, eventsKey, stalledKey, limiterKey, delayedKey, pausedKey, metaKey, pcKey,
    target, prefix .. job.id, metrics, markerKey
  }, { job.id, now, field, job.value, job.target, '0', prefix, opts, fields })
  -- It has looked itself whether the queue is drained.
  if code == 0 then isDrainChecked = true end
  return code
end

-- Its code, and of a numbered step its mark.
local function complete(job)
  local jobKey = prefix .. job.id
  local known = rcall('HMGET', jobKey, 'timestamp', 'parentKey', 'parent', 'deid', 'atm', 'gate')
  if not known[1] then return finishByBullMQ(job) end
  local code = lockCode(jobKey, job.token)
  if code < 0 then return code end
  putNote(jobKey, job.note, job.notesMax)
  if known[6] then rcall('HDEL', jobKey, 'gate') end
  if known[2] or known[3] or known[4] or job.target ~= 'completed'
    or rcall('EXISTS', jobKey .. ':dependencies', jobKey .. ':unsuccessful') > 0 then
    return finishByBullMQ(job), known[6]
  end
  locks[#locks + 1] = jobKey .. ':lock'
  unlocked[#unlocked + 1] = job.id
  if rcall('LREM', activeKey, -1, job.id) < 1 then return -3 end
  if job.count == 0 then
    removeJobKeys(jobKey)
  else
    rcall('ZADD', completedKey, now, job.id)
    rcall('HSET', jobKey, 'returnvalue', job.value, 'finishedOn', now, 'atm', (tonumber(known[5]) or 0) + 1)
    keepAs(job.count, job.age, job.limit)
  end
  rcall('XADD', eventsKey, '*', 'event', 'completed', 'jobId', job.id, 'returnvalue', job.value, 'prev', 'active')
  isDrainChecked = false
  return 0, known[6]
end

if #ARGV > ${TURN_ARGS} then trimEvents(metaKey, eventsKey) end
for at = ${TURN_ARGS + 1}, #ARGV, ${END_FIELDS.length} do
  local job = {
    id = ARGV[at], token = ARGV[at + 1], target = ARGV[at + 2], value = ARGV[at + 3], trace = ARGV[at + 4],
    count = tonumber(ARGV[at + 5]), age = tonumber(ARGV[at + 6]), limit = tonumber(ARGV[at + 7]) or 1000,
    attempts = tonumber(ARGV[at + 8]), note = ARGV[at + 9], notesMax = tonumber(ARGV[at + 10])
  }
  local code, mark = complete(job)
  codes[#codes + 1] = code
  if code == 0 and mark then passGate(mark, job.target) end
end
trim()
if #locks > 0 then
  rcall('DEL', unpack(locks))
  rcall('SREM', stalledKey, unpack(unlocked))
end

local jobs, limitMs, dueMs = {}, 0, 0
local function prepare(id, limit, duration)
  local jobKey = prefix .. id
  local known = rcall('HMGET', jobKey, 'data', 'opts', 'timestamp', 'ats', 'atm', 'defa')
  local step = known[1] and stepOf(known[1], known[3])
  if step and park(id, jobKey, step, known[6]) then return end
  if limit and not known[6] and rcall('INCR', limiterKey) == 1 then
    rcall('PEXPIRE', limiterKey, math.floor(math.abs(duration)))
  end
  local starts = (tonumber(known[4]) or 0) + 1
  rcall('SET', jobKey .. ':lock', token, 'PX', lockMs)
  rcall('XADD', eventsKey, '*', 'event', 'active', 'jobId', id, 'prev', 'waiting')
  rcall('HSET', jobKey, 'processedOn', now, 'pb', name, 'ats', starts)
  jobs[#jobs + 1] = { id, known[1] or '{}', known[2] or '{}', known[3] or now, starts, known[5] or '0', known[6] }
end

-- One of the wait list; entries that are no jobs are of BullMQ before version 5.
local function waiting()
  local id = rcall('RPOPLPUSH', waitKey, activeKey)
  while id and string.sub(id, 1, 2) == '0:' do
    rcall('LREM', activeKey, 1, id)
    id = rcall('RPOPLPUSH', waitKey, activeKey)
  end
  return id
end

local function prioritized(most)
  local found = rcall('ZPOPMIN', prioritizedKey, most)
  local ids = {}
  for at = 1, #found, 2 do ids[#ids + 1] = found[at] end
  if #ids > 0 then rcall('LPUSH', activeKey, unpack(ids)) end
  if #ids < most then rcall('DEL', pcKey) end
  return ids
end

local function take()
  local isClosed, limit, duration = getQueueMetadata(metaKey, activeKey, waitKey)
  promoteDelayedJobs(delayedKey, markerKey, waitKey, prioritizedKey, eventsKey, prefix, now, pcKey, isClosed)
  limit = tonumber(limit)
  -- Each job counts against these, so each is asked for alone.
  local isCounted = limit or rcall('HEXISTS', metaKey, 'concurrency') == 1
  local isWaitEmpty = false
  while #jobs < count and parked < ${PARKED_MAX} do
    if isCounted then isClosed = getQueueMetadata(metaKey, activeKey, waitKey) end
    limitMs = getRateLimitTTL(limit, limiterKey)
    if limitMs > 0 or isClosed then return end
    local id = not isWaitEmpty and waiting()
    if id then
      prepare(id, limit, duration)
    else
      isWaitEmpty = true
      local ids = prioritized(isCounted and 1 or count - #jobs)
      for _, each in ipairs(ids) do prepare(each, limit, duration) end
      if #ids == 0 then
        dueMs = getNextDelayedTimestamp(delayedKey) or 0
        return
      end
    end
  end
  if rcall('LLEN', waitKey) > 0 or rcall('ZCARD', prioritizedKey) > 0 then addBaseMarkerIfNeeded(markerKey, isClosed) end
end

if count > 0 then take() end
if parked > 0 then addDelayMarkerIfNeeded(markerKey, delayedKey) end
if not isDrainChecked and #jobs == 0 and rcall('LLEN', waitKey) == 0 and rcall('LLEN', activeKey) == 0
  and rcall('ZCARD', prioritizedKey) == 0 then
  rcall('XADD', eventsKey, '*', 'event', 'drained')
end
return { codes, jobs, limitMs, dueMs }
`;
}

/**
 * Puts running jobs back, in the order in which they were taken, before all that wait. ARGV from 3: `held`, then pairs
 * of id and token, the oldest first: those that this token holds, to the front of their priority, as BullMQ puts back;
 * or `dead`, the own owner, its epoch, `alone` or nothing: all whose lock is an earlier owner's or nobody's, as BullMQ
 * does with stalled ones. A token is `<owner>:<epoch>`, the owner's id begins with `co-`; others are a stock worker's.
 * Answers a code for each pair, or the ids.
 */
export function putBackScript(lua: BullLua): string {
  return `${HEAD(lua)}
local function isDead(held, owner, epoch, alone)
  if not held then return true end
  local by, number = string.match(held, '^(co%-[^:]+):(%d+)$')
  if not by then return false end
  return tonumber(number) < epoch or (alone and by ~= owner)
end

local function putBackHeld(id, token)
  local jobKey = prefix .. id
  if rcall('EXISTS', jobKey) == 0 then return -1 end
  local code = removeLock(jobKey, stalledKey, token, id)
  if code < 0 then return code end
  if rcall('LREM', activeKey, 1, id) < 1 then return 0 end
  local isClosed = isQueuePausedOrMaxed(metaKey, activeKey)
  local priority = tonumber(rcall('HGET', jobKey, 'priority')) or 0
  if priority > 0 then
    -- Before the first of its priority, which may have been put back itself.
    local score = priority * 0x100000000
    local first = rcall('ZRANGEBYSCORE', prioritizedKey, score - 0x80000000, score, 'WITHSCORES', 'LIMIT', 0, 1)
    rcall('ZADD', prioritizedKey, first[2] and tonumber(first[2]) - 1 or score, id)
    addBaseMarkerIfNeeded(markerKey, isClosed)
  else
    addJobInTargetList(waitKey, markerKey, 'RPUSH', isClosed, id)
  end
  rcall('XADD', eventsKey, 'MAXLEN', '~', getOrSetMaxEvents(metaKey), '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
  return 0
end

local answer = {}
if ARGV[3] == 'held' then
  -- What goes back last is taken first.
  for at = #ARGV - 1, 4, -2 do answer[(at - 2) / 2] = putBackHeld(ARGV[at], ARGV[at + 1]) end
  return answer
end
local owner, epoch, alone = ARGV[4], tonumber(ARGV[5]), ARGV[6] == 'alone'
-- The newest is at the head.
for _, id in ipairs(rcall('LRANGE', activeKey, 0, -1)) do
  local jobKey = prefix .. id
  if isDead(rcall('GET', jobKey .. ':lock'), owner, epoch, alone) then
    rcall('LREM', activeKey, 1, id)
    rcall('DEL', jobKey .. ':lock')
    rcall('SREM', stalledKey, id)
    rcall('HINCRBY', jobKey, 'stc', 1)
    moveJobToWait(metaKey, activeKey, waitKey, pausedKey, markerKey, eventsKey, id, 'RPUSH')
    rcall('XADD', eventsKey, '*', 'event', 'stalled', 'jobId', id)
    answer[#answer + 1] = id
  end
end
-- It writes the queue's notes where there are none, which one without jobs is to do without.
if #answer > 0 then trimEvents(metaKey, eventsKey) end
return answer
`;
}

/**
 * BullMQ's look for jobs whose lock ran out, in the order in which they were taken: its own goes by that of a set, which
 * is none, and would turn the steps of a sequence around. With its keys and arguments.
 */
export function stalledScript(lua: BullLua): string {
  const own = lua.body('stalled');
  const inOrder = own.replace("rcall('SMEMBERS', stalledKey)", 'inOrder(stalledKey, activeKey)');
  if (inOrder === own) throw new Error("BullMQ's script for stalled jobs reads them otherwise");
  return `local rcall = redis.call
${lua.functions}
local function inOrder(stalledKey, activeKey)
  local ids = {}
  for _, id in ipairs(rcall('LRANGE', activeKey, 0, -1)) do
    if rcall('SISMEMBER', stalledKey, id) == 1 then ids[#ids + 1] = id end
  end
  -- Without any of them running, BullMQ only forgets them.
  return #ids > 0 and ids or rcall('SMEMBERS', stalledKey)
end
${inOrder}`;
}

/** BullMQ's progress, of whoever holds the job alone. With its keys and arguments, then the token. */
export function progressScript(lua: BullLua): string {
  return `local rcall = redis.call
${lua.functions}
${LOCK_CODE}
local code = lockCode(KEYS[1], ARGV[3])
if code < 0 then return code end
${lua.body('progress')}`;
}
