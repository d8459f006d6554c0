/**
 * What the scripts of packages/transport do in Redis (redis-scripts.ts, directory-script.ts), said
 * once more for the simulated one. The contract suites hold both to the same behaviour.
 */
import { FRAME_OFFSET_BYTES, PUSH_GONE } from '../../packages/transport/src/redis-scripts.ts';
import type { SimRedis } from './sim-redis.ts';

export interface ScriptRules {
  /** R2: false gives a process that holds a lease the same epoch again. */
  readonly newEpochs: boolean;
  /** False: the counter of epochs falls behind what living processes have seen, once Redis has forgotten some. */
  readonly epochMemory: boolean;
  /** R11: false lets leases and registrations run out, and be taken, at once after a Redis that began anew. */
  readonly grace: boolean;
  /** R36: false keeps mailboxes that nobody reads. */
  readonly expireMailboxes: boolean;
  /** R30: false leaves an answer's blobs when they are read. */
  readonly takeBlobs: boolean;
}

export type Script = (redis: SimRedis, keys: readonly string[], args: readonly (string | Buffer)[]) => unknown;

/** By the names under which the clients define them. */
export function simScripts(rules: ScriptRules): Readonly<Record<string, Script>> {
  return {
    nereidMailboxOpen: (redis, keys, args) => openMailbox(redis, keys, args.map(String), rules),
    nereidMailboxPush: pushFrames,
    // No script, but what R30 rests on.
    getdel(redis, [key = '']) {
      const [value] = redis.list(key);
      if (rules.takeBlobs) redis.delete(key);
      return value;
    },
    nereidDirectory: (redis, keys, args) => directory(redis, keys, args.map(String), rules),
  };
}

function openMailbox(
  redis: SimRedis,
  [list = '', marker = '']: readonly string[],
  [ttl, messagesMax = '', bytesMax = '', anew]: readonly string[],
  { expireMailboxes }: ScriptRules,
): number {
  const was = anew !== '1' && redis.exists(marker);
  if (!was) {
    redis.delete(list);
    redis.put(
      marker,
      new Map([
        ['messages_max', messagesMax],
        ['bytes_max', bytesMax],
        ['start', '0'],
        ['end', '0'],
      ]),
    );
  }
  if (expireMailboxes) for (const key of [list, marker]) redis.expire(key, Number(ttl));
  return was ? 1 : 0;
}

const pushFrames: Script = (redis, [list = '', marker = ''], [ttl, ...frames]) => {
  const open = redis.hash(marker);
  if (open.size === 0) return PUSH_GONE;
  const field = (name: string) => Number(open.get(name));
  const waiting = redis.list(list);
  const empty = waiting.length === 0;
  let end = field('end');
  // The lower bound that the script keeps saves it a look; here the first frame is always asked.
  const start = empty ? end : (waiting[0]?.readDoubleBE() ?? end);
  const taken: Buffer[] = [];
  const full: number[] = [];
  for (const [index, frame] of frames.entries()) {
    if (typeof frame === 'string') throw new Error('a frame that is no buffer');
    const count = waiting.length + taken.length;
    const over = count > 0 && end - start + frame.byteLength > field('bytes_max');
    if (count >= field('messages_max') || over) {
      full.push(index + 1);
      continue;
    }
    const offset = Buffer.alloc(FRAME_OFFSET_BYTES);
    offset.writeDoubleBE(end);
    taken.push(Buffer.concat([offset, frame]));
    end += frame.byteLength;
  }
  if (taken.length > 0) {
    redis.put(marker, new Map([...open, ['start', `${start}`], ['end', `${end}`]]));
    redis.put(list, [...waiting, ...taken]);
    if (empty) redis.expire(list, Number(ttl));
  }
  return full;
};

/** A hash whose fields run out, by the sorted set beside it. */
function expiringHash(redis: SimRedis, hash: string, until: string) {
  const set = (key: string, field: string, value: string | undefined) => {
    const fields = new Map(redis.hash(key));
    if (value === undefined) fields.delete(field);
    else fields.set(field, value);
    redis.put(key, fields);
  };
  const drop = (field: string) => {
    const there = redis.hash(hash).has(field);
    set(until, field, undefined);
    set(hash, field, undefined);
    return there;
  };
  return {
    get: (field: string) => redis.hash(hash).get(field),
    put(field: string, value: string, ms: number) {
      set(hash, field, value);
      set(until, field, `${redis.nowMs() + ms}`);
    },
    drop,
    has: (field: string) => redis.hash(until).has(field),
    renew: (field: string, ms: number) => set(until, field, `${redis.nowMs() + ms}`),
    /** Nothing in it runs out before that. */
    keepUntil(ms: number) {
      for (const [field, end] of redis.hash(until)) if (Number(end) < ms) set(until, field, `${ms}`);
    },
    expire() {
      const over = [...redis.hash(until)].filter(([, end]) => Number(end) <= redis.nowMs());
      return over.map(([field]) => drop(field)).includes(true);
    },
    flat: () => [...redis.hash(hash)].flat(),
  };
}

/** One call of the directory's script: its state, step by step, as the Lua text has it. */
function directory(redis: SimRedis, keys: readonly string[], args: readonly string[], rules: ScriptRules) {
  const [meta = '', processesKey = '', processesUntil = '', ownersKey = '', ownersUntil = ''] = keys;
  const [writersKey = '', writersUntil = '', records = '', recordVersions = ''] = keys.slice(5);
  const [verb = '', channel = '', writer = '', sequence = '', sinceRun = '', sinceVersion = '', highest = ''] = args;
  const [graceMs = '', writerMs = ''] = args.slice(7);
  const given = args.slice(9);
  const processes = expiringHash(redis, processesKey, processesUntil);
  const owners = expiringHash(redis, ownersKey, ownersUntil);
  const writers = expiringHash(redis, writersKey, writersUntil);
  const metaField = (name: string) => redis.hash(meta).get(name);
  const setField = (key: string, field: string, value: string) =>
    redis.put(key, new Map([...redis.hash(key), [field, value]]));

  if (Number(sequence) <= Number(writers.get(writer) ?? 0)) return ['late'];
  writers.put(writer, sequence, Number(writerMs));
  if (metaField('created') === undefined) setField(meta, 'created', `${redis.nowMs()}`);
  const run = `${redis.runId}.${metaField('created')}`;
  let epoch = Number(metaField('epoch') ?? 0);
  const raise = (number: number) => {
    if (number <= epoch) return;
    epoch = number;
    setField(meta, 'epoch', `${epoch}`);
  };
  if (rules.epochMemory) raise(Number(highest));
  let grace = Number(metaField('grace') ?? 0);
  if (rules.grace && sinceRun !== '' && sinceRun !== run && metaField('graced') !== run) {
    grace = redis.nowMs() + Number(graceMs);
    setField(meta, 'graced', run);
    setField(meta, 'grace', `${grace}`);
    processes.keepUntil(grace);
    owners.keepUntil(grace);
  }
  writers.expire();
  const expired = [processes.expire(), owners.expire()];
  let changed = expired.includes(true);

  const ownerOf = (model: string) => owners.get(model)?.replace(/^\d+ /, '');
  const take = (model: string, owner: string, ms: number) => {
    const held = owners.get(model);
    if (!rules.newEpochs && held?.endsWith(` ${owner}`)) {
      owners.renew(model, ms);
      return Number.parseInt(held, 10);
    }
    raise(epoch + 1);
    owners.put(model, `${epoch} ${owner}`, ms);
    changed = true;
    return epoch;
  };
  const version = Number(metaField('version') ?? 0);

  const beat = () => {
    const [leaseMs = '', count = ''] = given;
    const claims = given.slice(2);
    const kept: number[] = [];
    const leases: number[] = [];
    for (let n = 0; n < Number(count); n++) {
      const [id = '', role = '', draining = '', ms = '', since = '', lasts = ''] = claims.splice(0, 6);
      const back = role !== 'worker' || (since !== run && redis.nowMs() < Number(lasts));
      kept.push(processes.has(id) || back ? 1 : 0);
      if (processes.has(id)) processes.renew(id, Number(ms));
      else if (back) {
        processes.put(id, `${role} ${draining}`, Number(ms));
        changed = true;
      }
    }
    while (claims.length > 0) {
      const [model = '', owner = '', number = '', since = ''] = claims.splice(0, 4);
      const holder = ownerOf(model);
      if (owners.get(model) === `${number} ${owner}`) {
        owners.renew(model, Number(leaseMs));
        leases.push(Number(number));
      } else if (since !== run && (holder === undefined || holder === owner)) {
        leases.push(take(model, owner, Number(leaseMs)));
      } else leases.push(0);
    }
    return [kept, leases];
  };

  const acquire = () => {
    const [model = '', owner = '', ms = '', above = '', last] = given;
    const holder = ownerOf(model);
    const free = holder === undefined && (redis.nowMs() >= grace || last === '1');
    if (holder !== owner && !free) return 0;
    raise(rules.newEpochs ? Number(above) : 0);
    return take(model, owner, Number(ms));
  };

  const write = () => {
    const [model = ''] = given;
    const holder = ownerOf(model);
    if (holder !== undefined && holder !== given.at(-1)) return 0;
    if (verb === 'publish') {
      setField(records, model, given[1] ?? '');
      setField(recordVersions, model, `${version + 1}`);
      changed = true;
    } else if (redis.hash(recordVersions).has(model)) {
      for (const key of [records, recordVersions]) {
        redis.put(key, new Map([...redis.hash(key)].filter(([name]) => name !== model)));
      }
      changed = true;
    }
    return 1;
  };

  const verbs: Readonly<Record<string, () => unknown>> = {
    beat,
    acquire,
    publish: write,
    withdraw: write,
    register() {
      const [id = '', role, draining, ms] = given;
      processes.put(id, `${role} ${draining}`, Number(ms));
      changed = true;
      return 1;
    },
    leave() {
      if (processes.drop(given[0] ?? '')) changed = true;
      return 1;
    },
    release() {
      const [model = '', owner] = given;
      if (ownerOf(model) === owner && owners.drop(model)) changed = true;
      return 1;
    },
  };
  const act = verbs[verb];
  if (act === undefined) throw new Error(`the simulated directory has no verb '${verb}'`);
  const result = act();

  let present = version;
  if (changed) {
    present++;
    setField(meta, 'version', `${present}`);
    redis.publish(channel, `${run} ${present}`);
  }
  const head = [run, present, redis.nowMs(), result];
  if (sinceRun === run && Number(sinceVersion) === present) return head;
  const versions = [...redis.hash(recordVersions)];
  const news = versions.filter(([, at]) => sinceRun !== run || Number(at) > Number(sinceVersion));
  const texts = news.flatMap(([model]) => [model, redis.hash(records).get(model) ?? '']);
  return [...head, processes.flat(), owners.flat(), versions.map(([model]) => model), texts];
}
