/**
 * The gate of a sequence whose jobs are numbered: which step's turn it is (docs/protocol.md R34). A hash for each
 * sequence that has begun: `next`; `at`, when that last rose; for each step that was parked before its turn its job
 * and since when. A parked job is delayed, as BullMQ has it, so that nothing is lost with a gate, and comes back when
 * its turn comes. What a step's turn waits for may never come, or come as a request: it is let through after a while,
 * and model and worker go by its number as ever. Part of the script that ends and takes; uses its names.
 */

/** A gate is forgotten so long after its last step. */
const GATE_TTL_S = 3_600;
/** So long after the sequence came on last a step waits for its turn no longer. */
export const PARKED_MS_MAX = 5_000;
/** Data beyond that are not looked through for a number. */
const DATA_BYTES_MAX = 65_536;
/** A call that has parked so many takes no more. */
export const PARKED_MAX = 64;

export const GATE_FUNCTIONS = `
local parked = 0

local function sequenceName(id)
  if type(id) == 'table' then id = tonumber(id.int64) and id.int64 end
  if type(id) == 'number' then id = string.format('%.0f', id) end
  return type(id) == 'string' and id or nil
end

-- The step that a job's data name: its sequence, number, whether it is the last, and when it is too late.
local function stepOf(data, created)
  if #data > ${DATA_BYTES_MAX} then return nil end
  if not string.find(data, '"sequence_index"', 1, true) and not string.find(data, '"nereid_step"', 1, true) then return nil end
  local isRead, job = pcall(cjson.decode, data)
  if not isRead or type(job) ~= 'table' or type(job.parameters) ~= 'table' then return nil end
  local parameters = job.parameters
  local index = tonumber(job.sequence_index or parameters.sequence_index or parameters.nereid_step)
  local sequence = sequenceName(parameters.sequence_id)
  if not index or not sequence or index < 0 or index ~= math.floor(index) then return nil end
  local deadline = tonumber(job.deadline_ms)
  return {
    sequence = sequence, index = index, isLast = parameters.sequence_end == true, isCancelled = job.cancelled == true,
    lateMs = deadline and tonumber(created) and tonumber(created) + deadline
  }
end

local function gateKey(sequence)
  return prefix .. 'nereid-gate:' .. sequence
end

-- Puts a running job's step aside where it is not its turn; true where it has. One that is over, unrun, does not wait.
local function park(id, jobKey, step, isOver)
  local key = gateKey(step.sequence)
  if step.index == 0 then rcall('HSETNX', key, 'next', 0) end
  local gate = rcall('HMGET', key, 'next', 'at', 'since' .. step.index)
  rcall('HSET', jobKey, 'gate', string.format('%.0f', step.index) .. (step.isLast and '.' or ':') .. step.sequence)
  local due = tonumber(gate[1])
  if not due or step.index <= due or step.isCancelled or isOver then return false end
  local since = tonumber(gate[3]) or tonumber(now)
  local untilMs = math.max(tonumber(gate[2]) or 0, since) + ${PARKED_MS_MAX}
  if step.lateMs then untilMs = math.min(untilMs, step.lateMs) end
  if untilMs <= tonumber(now) then return false end
  parked = parked + 1
  rcall('HSET', key, 'job' .. step.index, id, 'since' .. step.index, since)
  rcall('EXPIRE', key, ${GATE_TTL_S})
  rcall('LREM', activeKey, 1, id)
  local score, delayedTimestamp = getDelayedScore(delayedKey, now, untilMs - tonumber(now))
  rcall('HSET', jobKey, 'delay', string.format('%.0f', untilMs - tonumber(now)))
  rcall('ZADD', delayedKey, score, id)
  rcall('XADD', eventsKey, '*', 'event', 'delayed', 'jobId', id, 'delay', delayedTimestamp)
  return true
end

-- A parked job whose turn it is goes before all that wait.
local function unpark(key, index)
  local id = rcall('HGET', key, 'job' .. index)
  rcall('HDEL', key, 'job' .. index, 'since' .. index)
  if not id or rcall('ZREM', delayedKey, id) == 0 then return end
  rcall('HSET', prefix .. id, 'delay', 0)
  addJobInTargetList(waitKey, markerKey, 'RPUSH', isQueuePausedOrMaxed(metaKey, activeKey), id)
  rcall('XADD', eventsKey, '*', 'event', 'waiting', 'jobId', id, 'prev', 'delayed')
end

-- A step is over, and what its job was marked with says which. One that failed before its turn has passed none.
local function passGate(mark, target)
  local number, last, sequence = string.match(mark, '^(%d+)([.:])(.*)$')
  local key, index = gateKey(sequence), tonumber(number)
  local due = tonumber(rcall('HGET', key, 'next')) or 0
  if index < due or (index > due and target == 'failed') then return end
  if last == '.' then
    rcall('DEL', key)
    return
  end
  rcall('HSET', key, 'next', index + 1, 'at', now)
  rcall('EXPIRE', key, ${GATE_TTL_S})
  unpark(key, index + 1)
end
`;
