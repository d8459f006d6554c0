import type { RedisClient } from './redis-connection.ts';

/** Before each frame in a mailbox's list: how many bytes had gone in before it, as a big-endian double. */
export const FRAME_OFFSET_BYTES = 8;

/** What PUSH answers where the mailbox is not open. */
export const PUSH_GONE = -1;

/**
 * Pushes frames into an open mailbox, each that fits its limits.
 * KEYS: list, open-marker; ARGV: TTL of the list in ms, frames.
 * Answers PUSH_GONE, or the positions (from 1) of the frames that found it full.
 *
 * The bytes waiting are the bytes that ever went in (`end`) less those that have gone out. The latter are not counted
 * by anyone: the first frame of the list tells them by its offset, so they are right whatever the reader did. It is
 * looked at only when `start`, a lower bound of it, does not suffice. One frame over the byte limit still goes into an
 * empty mailbox, else it could never be sent.
 */
const PUSH = `
local open = redis.call('HMGET', KEYS[2], 'messages_max', 'bytes_max', 'start', 'end')
if not open[1] then return ${PUSH_GONE} end
local messages_max, bytes_max = tonumber(open[1]), tonumber(open[2])
local start, stop = tonumber(open[3]), tonumber(open[4])
local count = redis.call('LLEN', KEYS[1])
local empty = count == 0
local exact = empty
if empty then start = stop end
local taken, full = {}, {}
for i = 2, #ARGV do
  local size = #ARGV[i]
  if not exact and stop - start + size > bytes_max then
    local first = redis.call('LINDEX', KEYS[1], 0)
    local offset = #first >= ${FRAME_OFFSET_BYTES} and struct.unpack('>d', first) or start
    if offset > start and offset <= stop then start = offset end
    exact = true
  end
  if count >= messages_max or (count > 0 and stop - start + size > bytes_max) then
    full[#full + 1] = i - 1
  else
    taken[#taken + 1] = struct.pack('>d', stop) .. ARGV[i]
    stop = stop + size
    count = count + 1
  end
end
if #taken > 0 then
  redis.call('RPUSH', KEYS[1], unpack(taken))
  if empty then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
  redis.call('HSET', KEYS[2], 'start', start, 'end', stop)
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
  redis.call('HSET', KEYS[2], 'messages_max', ARGV[2], 'bytes_max', ARGV[3], 'start', 0, 'end', 0)
  redis.call('PEXPIRE', KEYS[2], ARGV[1])
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
`;

type RedisScript = (keys: readonly string[], args: readonly (string | number | Buffer)[]) => Promise<unknown>;

function defineScript(client: RedisClient, name: string, lua: string, numberOfKeys: number): RedisScript {
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
