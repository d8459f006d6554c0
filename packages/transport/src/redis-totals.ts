/** Totals in Redis: one hash, so that one call keeps those of many models. */
import { answeredWithin, type Clock } from '@nereid/runtime';
import type { KeptTotals } from './kept-totals.ts';
import type { RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';

/** How long a call waits for the connection; whoever keeps totals comes again. */
const CONNECT_MS_MAX = 2_000;
/** One call writes or reads so many at most: Redis does nothing else meanwhile. */
const MODELS_PER_CALL_MAX = 1_000;

/**
 * KEYS: the hash; ARGV: of each model its name, epoch and text. A field is `epoch text`: one that was
 * kept under a later epoch stays, so a former owner that wakes up late changes nothing.
 */
const KEEP = `
for i = 1, #ARGV, 3 do
  local model, epoch, text = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local held = redis.call('HGET', KEYS[1], model)
  local heldEpoch = held and tonumber(string.match(held, '^%d+')) or 0
  if heldEpoch <= tonumber(epoch) then
    if text == '' then
      redis.call('HDEL', KEYS[1], model)
    else
      redis.call('HSET', KEYS[1], model, epoch .. ' ' .. text)
    end
  end
end
return 1
`;

interface WithKeepScript {
  nereidKeepTotals(...keysAndArgs: readonly string[]): Promise<unknown>;
}

export interface RedisTotalsOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
}

/** On a connection of its own, which is dialled at the first use and ends with the connector. */
export function createRedisTotals({ connector, prefix, clock }: RedisTotalsOptions): KeptTotals {
  const key = redisKeys(prefix).statistics('all');
  const connection = connector.connect('statistics');
  connection.client.defineCommand('nereidKeepTotals', { numberOfKeys: 1, lua: KEEP });
  const { client } = connection;
  const scripted = client as typeof client & WithKeepScript;

  const connected = async () => {
    if (!connection.isReady) await answeredWithin(connection.ready(), CONNECT_MS_MAX, clock);
  };

  return {
    async read(models) {
      const kept = new Map<string, string>();
      for (let from = 0; from < models.length; from += MODELS_PER_CALL_MAX) {
        const asked = models.slice(from, from + MODELS_PER_CALL_MAX);
        await connected();
        const held = (await client.call('HMGET', key, ...asked)) as readonly (string | null)[];
        for (const [index, model] of asked.entries()) {
          const field = held[index];
          if (typeof field === 'string') kept.set(model, field.slice(field.indexOf(' ') + 1));
        }
      }
      return kept;
    },
    async write(totals) {
      for (let from = 0; from < totals.length; from += MODELS_PER_CALL_MAX) {
        const args = totals
          .slice(from, from + MODELS_PER_CALL_MAX)
          .flatMap(({ model, epoch, text }) => [model, epoch.toFixed(0), text]);
        await connected();
        await scripted.nereidKeepTotals(key, ...args);
      }
    },
  };
}
