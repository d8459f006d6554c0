import { FRAME_LENGTH_BYTES, PARCEL_COUNTERS_BYTES } from './mailbox-parcel.ts';
import type { RedisClient } from './redis-connection.ts';

/** What PUSH answers where the mailbox is not open. */
export const PUSH_GONE = -1;

/**
 * Pushes parcels (mailbox-parcel.ts) into an open mailbox; where they do not all fit its limits, each frame that does.
 * KEYS: list, open-marker; ARGV: TTL of the list in ms, then of each parcel the number of its frames and its bytes.
 * Answers PUSH_GONE, or the positions (from 1) of the frames that found it full.
 *
 * What waits is what ever went in (`messages_in`, `bytes_in`) less what has gone out. The latter is not counted by
 * anyone: the first parcel of the list tells it by its counters, so it is right whatever the reader did. It is looked at
 * only when `messages_out` and `bytes_out`, lower bounds of it, do not suffice. One frame over the byte limit still goes
 * into an empty mailbox, else it could never be sent.
 */
const PUSH = `
local open = redis.call('HMGET', KEYS[2], 'messages_max', 'bytes_max', 'messages_out', 'bytes_out', 'messages_in', 'bytes_in')
if not open[6] then return ${PUSH_GONE} end
local messages_max, bytes_max = tonumber(open[1]), tonumber(open[2])
local messages_out, bytes_out = tonumber(open[3]), tonumber(open[4])
local messages_in, bytes_in = tonumber(open[5]), tonumber(open[6])
local counts, sizes, messages, bytes = {}, {}, 0, 0
for i = 2, #ARGV, 2 do
  counts[i] = tonumber(ARGV[i])
  sizes[i] = #ARGV[i + 1] - ${FRAME_LENGTH_BYTES} * counts[i]
  messages = messages + counts[i]
  bytes = bytes + sizes[i]
end
local function fits()
  return messages_in - messages_out + messages <= messages_max and bytes_in - bytes_out + bytes <= bytes_max
end
local moved = false
if not fits() then
  local first = redis.call('LINDEX', KEYS[1], 0)
  moved = true
  if not first then
    messages_out, bytes_out = messages_in, bytes_in
  elseif #first >= ${PARCEL_COUNTERS_BYTES} then
    local before, bytes_before = struct.unpack('>dd', first)
    if before > messages_out and before <= messages_in then messages_out = before end
    if bytes_before > bytes_out and bytes_before <= bytes_in then bytes_out = bytes_before end
  end
end
local messages_were, bytes_were = messages_in, bytes_in
local parcels, full = {}, {}
local function take(count, size, frames)
  parcels[#parcels + 1] = struct.pack('>dd', messages_in, bytes_in) .. frames
  messages_in = messages_in + count
  bytes_in = bytes_in + size
end
if fits() then
  for i = 2, #ARGV, 2 do take(counts[i], sizes[i], ARGV[i + 1]) end
else
  local position = 0
  for i = 2, #ARGV, 2 do
    local at = 1
    for _ = 1, counts[i] do
      position = position + 1
      local size = struct.unpack('<I4', ARGV[i + 1], at)
      local waiting = messages_in - messages_out
      if waiting >= messages_max or (waiting > 0 and bytes_in - bytes_out + size > bytes_max) then
        full[#full + 1] = position
      else
        take(1, size, string.sub(ARGV[i + 1], at, at + ${FRAME_LENGTH_BYTES - 1} + size))
      end
      at = at + ${FRAME_LENGTH_BYTES} + size
    end
  end
end
if #parcels > 0 then
  local length = redis.call('RPUSH', KEYS[1], unpack(parcels))
  if length == #parcels then
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    messages_out, bytes_out = messages_were, bytes_were
    moved = true
  end
  if moved then
    redis.call('HSET', KEYS[2], 'messages_in', messages_in, 'bytes_in', bytes_in, 'messages_out', messages_out, 'bytes_out', bytes_out)
  else
    redis.call('HSET', KEYS[2], 'messages_in', messages_in, 'bytes_in', bytes_in)
  end
end
return full
`;

/**
 * Opens a mailbox, or renews its TTL; answers 1 where it was open already, else 0.
 * KEYS: list, open-marker; ARGV: TTL in ms, messages_max, bytes_max, '1' to begin anew.
 * One that was not open begins empty: what a list without its marker holds was not counted.
 */
const OPEN = `
if ARGV[4] == '1' or redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
  redis.call('HSET', KEYS[2], 'messages_max', ARGV[2], 'bytes_max', ARGV[3], 'messages_out', 0, 'bytes_out', 0, 'messages_in', 0, 'bytes_in', 0)
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
`;

export type RedisScript = (keys: readonly string[], args: readonly (string | number | Buffer)[]) => Promise<unknown>;

export function defineScript(client: RedisClient, name: string, lua: string, numberOfKeys: number): RedisScript {
  client.defineCommand(name, { lua, numberOfKeys });
  // The client adds the command as a method, which its type cannot know.
  const commands = client as unknown as Record<string, (...args: readonly unknown[]) => Promise<unknown>>;
  return async (keys, args) => commands[name]?.(...keys, ...args);
}

export interface MailboxScripts {
  readonly push: RedisScript;
  readonly open: RedisScript;
}

/** The scripts on one connection; it sends the text once and then only the digest. */
export function mailboxScripts(client: RedisClient): MailboxScripts {
  return {
    push: defineScript(client, 'nereidMailboxPush', PUSH, 2),
    open: defineScript(client, 'nereidMailboxOpen', OPEN, 2),
  };
}
