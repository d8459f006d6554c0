/**
 * Scripts of the journal. All keys of a model's recordings are in one slot; those of a recording are made from the bases
 * in KEYS, since which ones a call evicts is not known before it. All times are Redis' own.
 */
import type { JournalBounds } from './journal.ts';
import type { RedisClient } from './redis-connection.ts';
import type { RedisKeys } from './redis-keys.ts';
import { defineScript, type RedisScript } from './redis-scripts.ts';

/** What an append says of a step that it did not keep: no more of its recording is kept; there was no room to begin it. */
export const STEP_OVER = 1;
export const STEP_NO_ROOM = 2;
/** The model had no recordings before; told of position 0. */
export const FIRST_OF_MODEL = 3;

/** A recording lives so much longer than it should at most, so that not each step has to renew it. */
const AGE_SLACK_PARTS = 64;
/** So many recordings go by one call at most: Redis does nothing else meanwhile. */
const FORGOTTEN_MAX = 100;

/** What ends or takes away also does so where Redis is full. */
const ALLOW_OOM = '#!lua flags=allow-oom\n';

const COMMON = `
local index, untils, sizes = KEYS[1], KEYS[2], KEYS[3]
local total = tonumber(redis.call('HGET', sizes, '') or '0')
-- Bytes of the recordings that this call has changed.
local held = {}
local any_forgotten = false

local function whole(n) return string.format('%.0f', n) end

local function forget(session)
  redis.call('UNLINK', KEYS[4] .. session, KEYS[5] .. session, KEYS[6] .. session)
  redis.call('ZREM', index, session)
  redis.call('ZREM', untils, session)
  total = total - (held[session] or tonumber(redis.call('HGET', sizes, session) or '0'))
  held[session] = nil
  redis.call('HDEL', sizes, session)
  any_forgotten = true
end

local function write_sizes()
  if any_forgotten and redis.call('EXISTS', index) == 0 then
    redis.call('UNLINK', sizes)
    return
  end
  local fields = {'', whole(total)}
  for session, bytes in pairs(held) do
    fields[#fields + 1] = session
    fields[#fields + 1] = whole(bytes)
  end
  redis.call('HSET', sizes, unpack(fields))
end
`;

/**
 * ARGV: limits, whether recordings may begin; then of each step a header, its frame, and digest and data of each of its
 * tensors that are kept apart. Answers of each step that was not kept its position, from 1, and why.
 * Without `allow-oom`: a Redis that is full refuses the call as a whole.
 */
const APPEND = `#!lua
${COMMON}
local age, steps_max, recording_max, recordings_max, bytes_max, may_begin =
  string.match(ARGV[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
age, steps_max, recordings_max, bytes_max = tonumber(age), tonumber(steps_max), tonumber(recordings_max), tonumber(bytes_max)
-- One that fills its model's bytes by itself would evict itself.
recording_max = math.min(tonumber(recording_max), bytes_max)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local told, begun, latest = {}, false, 0

local function tell(position, what)
  told[#told + 1] = position
  told[#told + 1] = what
end

local function begin(session, started, who, first)
  if redis.call('EXISTS', index) == 0 then tell(0, ${FIRST_OF_MODEL}) end
  redis.call('ZADD', index, string.format('%.3f', time[1] * 1000 + time[2] / 1000), session)
  redis.call('HSET', KEYS[4] .. session, 'state', 'open', 'steps', 0, 'bytes', 0, 'started', started, 'last', started,
    'who', who, 'first', first)
  held[session] = 0
  begun = true
  return {'open', '0', '0', '0', who}
end

local at, position = 2, 0
while at <= #ARGV do
  local session, number, state, last, apart, who, first =
    string.match(ARGV[at], '^(%S+) (%d+) (%a+) (%S+) (%d+)\\n([^\\n]*)\\n(.*)$')
  local frame = ARGV[at + 1]
  local from = at + 2
  at = from + 2 * apart
  position = position + 1
  number = tonumber(number)
  local recording, tensors = KEYS[4] .. session, KEYS[6] .. session
  local known = redis.call('HMGET', recording, 'state', 'steps', 'bytes', 'until', 'who')
  if number == 0 then
    if known[1] then forget(session) end
    known = may_begin == '1' and begin(session, last, who, first) or {}
  end
  if known[1] ~= 'open' then
    tell(position, number == 0 and ${STEP_NO_ROOM} or ${STEP_OVER})
  else
    local steps, bytes, ends = tonumber(known[2]), tonumber(known[3]), tonumber(known[4])
    local fields, kept = {'state', 'gap'}, {}
    if number == steps then
      local added = #frame
      for i = from, at - 1, 2 do
        if redis.call('HEXISTS', tensors, ARGV[i]) == 0 then
          added = added + #ARGV[i + 1]
          kept[#kept + 1] = i
        end
      end
      bytes = bytes + added
      if steps >= steps_max or bytes > recording_max then
        fields, kept = {'state', 'capped'}, {}
        tell(position, ${STEP_OVER})
      else
        redis.call('XADD', KEYS[5] .. session, whole(steps + 1) .. '-0', 'f', frame)
        for _, i in ipairs(kept) do redis.call('HSET', tensors, ARGV[i], ARGV[i + 1]) end
        total = total + added
        held[session] = bytes
        fields = {'state', state, 'steps', steps + 1, 'bytes', whole(bytes), 'last', last}
        if who ~= known[5] then
          fields[9], fields[10] = 'who', who
        end
      end
    else
      tell(position, ${STEP_OVER})
    end
    local renewed = ends - now < age
    if renewed then
      ends = now + age + math.ceil(age / ${AGE_SLACK_PARTS})
      fields[#fields + 1] = 'until'
      fields[#fields + 1] = whole(ends)
    end
    redis.call('HSET', recording, unpack(fields))
    if renewed then
      redis.call('ZADD', untils, whole(ends), session)
      redis.call('PEXPIREAT', recording, whole(ends))
      redis.call('PEXPIREAT', KEYS[5] .. session, whole(ends))
      latest = math.max(latest, ends)
    end
    if renewed or #kept > 0 then redis.call('PEXPIREAT', tensors, whole(ends)) end
  end
end

if begun or total > bytes_max then
  -- Those that ran out, then the oldest.
  for _, session in ipairs(redis.call('ZRANGEBYSCORE', untils, '-inf', whole(now), 'LIMIT', 0, ${FORGOTTEN_MAX})) do
    forget(session)
  end
  for _ = 1, ${FORGOTTEN_MAX} do
    if total <= bytes_max and redis.call('ZCARD', index) <= recordings_max then break end
    local oldest = redis.call('ZRANGE', index, 0, 0)[1]
    if not oldest then break end
    forget(oldest)
  end
end
if any_forgotten or next(held) then write_sizes() end
if latest > 0 then
  for i = 1, 3 do
    if redis.call('PTTL', KEYS[i]) < latest - now then redis.call('PEXPIREAT', KEYS[i], whole(latest)) end
  end
end
return told
`;

/**
 * Ends recordings that are open. ARGV: of each its session, what it becomes, whose it has to be ('' for anybody's), and
 * of a gap the last step that was not kept, else ''. Answers of each 1, or 0 where it goes on since it has that step.
 */
const END = `${ALLOW_OOM}
local over = {}
for i = 1, #ARGV, 4 do
  local recording, worker, last = KEYS[1] .. ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local known = redis.call('HMGET', recording, 'state', 'steps', 'who')
  over[#over + 1] = 1
  if known[1] == 'open' and (worker == '' or cjson.decode(known[3])[1] == worker) then
    if last ~= '' and tonumber(known[2]) > tonumber(last) then
      over[#over] = 0
    else
      redis.call('HSET', recording, 'state', ARGV[i + 1])
    end
  end
end
return over
`;

/** ARGV: session, '1' only where it ran out. Answers 1 where there was one. */
const REMOVE = `${ALLOW_OOM}${COMMON}
local known = redis.call('EXISTS', KEYS[4] .. ARGV[1])
if known == 1 and ARGV[2] == '1' then return 0 end
if known == 0 and not redis.call('ZSCORE', index, ARGV[1]) then return 0 end
forget(ARGV[1])
write_sizes()
return known
`;

/** KEYS: names of models; ARGV: model, for how many milliseconds. */
const NOTE = `${ALLOW_OOM}
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
`;

export interface JournalScripts {
  readonly append: RedisScript;
  readonly end: RedisScript;
  readonly remove: RedisScript;
  readonly note: RedisScript;
}

export function journalScripts(client: RedisClient): JournalScripts {
  return {
    append: defineScript(client, 'nereidJournalAppend', APPEND, 6),
    end: defineScript(client, 'nereidJournalEnd', END, 1),
    remove: defineScript(client, 'nereidJournalRemove', REMOVE, 6),
    note: defineScript(client, 'nereidJournalNote', NOTE, 1),
  };
}

/** The first of an append's ARGV. */
export function limitsText(limits: JournalBounds, mayBegin: boolean): string {
  const { age_s, steps, recording_bytes, recordings, bytes } = limits;
  return [age_s * 1000, steps, recording_bytes, recordings, bytes, mayBegin ? 1 : 0].join(' ');
}

export function noteArgs(model: string, { age_s }: JournalBounds): readonly (string | number)[] {
  return [model, 2 * age_s * 1000];
}

/** KEYS of append and remove. */
export function journalKeys(keys: RedisKeys, model: string): readonly string[] {
  return [
    keys.journal(model),
    keys.journalUntil(model),
    keys.journalBytes(model),
    keys.journalRecording(model, ''),
    keys.journalSteps(model, ''),
    keys.journalTensors(model, ''),
  ];
}
