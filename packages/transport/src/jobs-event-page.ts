import type { RedisClient } from './redis-connection.ts';

/** What a queue's event stream has of one job. */
export interface StoredEvent {
  /** Rising; begins with Redis' time in milliseconds. */
  readonly event: string;
  /** BullMQ's name of it. */
  readonly name: string;
  /** JSON, of `progress`. */
  readonly data: string;
}

export interface EventPage {
  /** The oldest event that the queue still has, '' for none. */
  readonly first: string;
  /** The last one looked at, '' where there was none. */
  readonly last: string;
  /** None was there behind it. */
  readonly isWhole: boolean;
  readonly events: readonly StoredEvent[];
}

/** Events of a queue that are looked at in one call. */
const ENTRIES_MAX = 512;
const COMMAND = 'nereidJobEvents';

/**
 * One job's events among those of its queue, which may be large: results are in them.
 * KEYS: the stream. ARGV: the job's id, XRANGE's start, how many to look at.
 */
const PAGE = `
local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local entries = redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3])
local found = {}
for _, entry in ipairs(entries) do
  local fields = entry[2]
  local name, job, data = '', nil, ''
  for at = 1, #fields, 2 do
    if fields[at] == 'event' then name = fields[at + 1]
    elseif fields[at] == 'jobId' then job = fields[at + 1]
    elseif fields[at] == 'data' then data = fields[at + 1] end
  end
  if job == ARGV[1] then found[#found + 1] = {entry[1], name, data} end
end
local newest = entries[#entries]
return {oldest and oldest[1] or '', newest and newest[1] or '', #entries, found}
`;

type Reply = readonly [string, string, number, readonly (readonly [string, string, string])[]];

/** `start` as XRANGE has it: an id, `(` and an id for those behind it, or `-`. */
export async function readEventPage(client: RedisClient, key: string, job: string, start: string): Promise<EventPage> {
  // The client adds the command as a method, which its type cannot know.
  const commands = client as unknown as Record<string, ((...args: readonly unknown[]) => Promise<Reply>) | undefined>;
  if (commands[COMMAND] === undefined) client.defineCommand(COMMAND, { lua: PAGE, numberOfKeys: 1 });
  const reply = await commands[COMMAND]?.(key, job, start, ENTRIES_MAX);
  const [first = '', last = '', looked = 0, found = []] = reply ?? [];
  return {
    first,
    last,
    isWhole: looked < ENTRIES_MAX,
    events: found.map(([event, name, data]) => ({ event, name, data })),
  };
}

/** Whether an event's id is behind another one's. */
export function isBehind(event: string, other: string): boolean {
  const [ms = 0, count = 0] = event.split('-').map(Number);
  const [otherMs = 0, otherCount = 0] = other.split('-').map(Number);
  return ms > otherMs || (ms === otherMs && count > otherCount);
}
