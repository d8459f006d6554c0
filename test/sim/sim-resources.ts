/** What the script of shared resources does in Redis (resources-script.ts), for the simulated one. */
import { type KeptClaim, takeClaim } from '../../packages/transport/src/resource-claims.ts';
import { LATE } from '../../packages/transport/src/resources-script.ts';
import type { ResourceClaim } from '../../packages/transport/src/shared-resources.ts';
import type { Script } from './sim-scripts.ts';

interface Stored extends KeptClaim {
  readonly seq: number;
}

/** `drops` false keeps the claims of workers that are gone. */
export const simClaims =
  (drops: boolean): Script =>
  (redis, [claimsKey = '', metaKey = '', untilKey = ''], given) => {
    const [channel = '', worker = '', seq = '', sinceRun, graceMs = '', ttlMs = '', text = ''] = given.map(String);
    const before = redis.hash(claimsKey).get(worker);
    if (before !== undefined && Number(seq) <= readStored(before).seq) return [LATE];

    const meta = (name: string) => redis.hash(metaKey).get(name);
    const setMeta = (name: string, value: string) =>
      redis.put(metaKey, new Map([...redis.hash(metaKey), [name, value]]));
    if (meta('created') === undefined) setMeta('created', `${redis.nowMs()}`);
    const run = `${redis.runId}.${meta('created')}`;
    const lastRun = meta('run');
    if (lastRun !== run) setMeta('run', run);
    const isNew = (lastRun !== undefined && lastRun !== run) || (sinceRun !== '' && sinceRun !== run);
    if (isNew && meta('graced') !== run) {
      setMeta('graced', run);
      setMeta('grace', `${redis.nowMs() + Number(graceMs)}`);
    }
    const settled = redis.nowMs() >= Number(meta('grace') ?? 0);

    const stored = new Map<string, Stored>();
    for (const [id, claim] of redis.hash(claimsKey)) {
      const lives = Number(redis.hash(untilKey).get(id) ?? 0) > redis.nowMs();
      if (id === worker || lives || !settled || !drops) stored.set(id, readStored(claim));
    }
    const claim = text === '' ? undefined : readClaim(JSON.parse(text));
    const state = { claims: stored, tickets: Number(meta('tickets') ?? 0) };
    const { claims, tickets, granted, wake } = takeClaim(state, worker, claim, settled);
    if (tickets > state.tickets) setMeta('tickets', `${tickets}`);
    const texts = [...claims].map(([id, kept]): [string, string] => {
      const number = id === worker ? Number(seq) : (stored.get(id)?.seq ?? 0);
      return [id, writeStored(kept, number)];
    });
    redis.put(claimsKey, new Map(texts));
    for (const key of [claimsKey, metaKey]) redis.expire(key, Number(ttlMs));
    if (wake.length > 0) redis.publish(channel, wake.join(' '));
    return [run, granted ? 1 : 0, wake];
  };

type Counts = Readonly<Record<string, number>>;

function readClaim({ limits, held, wanted, wish }: Record<'limits' | 'held' | 'wanted', Counts> & { wish: number }) {
  const map = (counts: Counts) => new Map(Object.entries(counts));
  const claim: ResourceClaim = { limits: map(limits), held: map(held), wanted: map(wanted), wish };
  return claim;
}

function readStored(text: string): Stored {
  const parsed = JSON.parse(text);
  return { ...readClaim(parsed), ticket: parsed.ticket, granted: parsed.granted, seq: parsed.seq };
}

function writeStored({ limits, held, wanted, wish, ticket, granted }: KeptClaim, seq: number): string {
  const [a, b, c] = [limits, held, wanted].map((counts) => Object.fromEntries(counts));
  return JSON.stringify({ limits: a, held: b, wanted: c, wish, ticket, granted, seq });
}
