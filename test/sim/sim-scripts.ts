/**
 * What the scripts of packages/transport do in Redis (redis-scripts.ts, directory-script.ts,
 * resources-script.ts), said once more for the simulated one. The contract suites hold both to the same behaviour.
 */
import { FRAME_LENGTH_BYTES, PARCEL_COUNTERS_BYTES, readParcel } from '../../packages/transport/src/mailbox-parcel.ts';
import { PUSH_GONE } from '../../packages/transport/src/redis-scripts.ts';
import type { SimRedis } from './sim-redis.ts';
import { simClaims } from './sim-resources.ts';

export interface ScriptRules {
  /** R2: false gives a process that holds a lease the same epoch again. */
  readonly newEpochs: boolean;
  /** False: the counter of epochs falls behind what living processes have seen, once Redis has forgotten some. */
  readonly epochMemory: boolean;
  /** R11: false lets leases and registrations run out, and be taken, at once after a Redis that began anew. */
  readonly grace: boolean;
  /** R36: false keeps mailboxes that nobody reads. */
  readonly expireMailboxes: boolean;
  /** False: what a worker held of the resources that all share stays held when it is gone. */
  readonly dropClaims: boolean;
  /** R30: false leaves an answer's blobs when they are read. */
  readonly takeBlobs: boolean;
}

export type Script = (redis: SimRedis, keys: readonly string[], args: readonly (string | Buffer)[]) => unknown;

/** By the names under which the clients define them. */
export function simScripts(rules: ScriptRules): Readonly<Record<string, Script>> {
  return {
    nereidMailboxOpen: (redis, keys, args) => openMailbox(redis, keys, args.map(String), rules),
    nereidMailboxPush: pushParcels,
    // No script, but what R30 rests on.
    getdel(redis, [key = '']) {
      const [value] = redis.list(key);
      if (rules.takeBlobs) redis.delete(key);
      return value;
    },
    nereidDirectory: (redis, keys, args) => directory(redis, keys, args.map(String), rules),
    nereidResources: simClaims(rules.dropClaims),
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
        ['messages_out', '0'],
        ['bytes_out', '0'],
        ['messages_in', '0'],
        ['bytes_in', '0'],
      ]),
    );
  }
  if (expireMailboxes) for (const key of [list, marker]) redis.expire(key, Number(ttl));
  return was ? 1 : 0;
}

const pushParcels: Script = (redis, [list = '', marker = ''], [ttl, ...given]) => {
  const open = redis.hash(marker);
  if (open.size === 0) return PUSH_GONE;
  const field = (name: string) => Number(open.get(name));
  const waiting = redis.list(list);
  const into = { messages: field('messages_in'), bytes: field('bytes_in') };
  // The lower bounds that the script keeps save it a look; here the first parcel is always asked.
  const [first] = waiting;
  const out = { messages: first?.readDoubleBE() ?? into.messages, bytes: first?.readDoubleBE(8) ?? into.bytes };
  const sent = given.filter((part) => typeof part !== 'string').map((part) => ({ part, ...framesOf(part) }));
  const all = { messages: sum(sent.map(({ frames }) => frames.length)), bytes: sum(sent.map(({ bytes }) => bytes)) };
  const fits =
    into.messages - out.messages + all.messages <= field('messages_max') &&
    into.bytes - out.bytes + all.bytes <= field('bytes_max');
  const taken: Buffer[] = [];
  const full: number[] = [];
  const take = (messages: number, bytes: number, frames: Uint8Array) => {
    const counters = Buffer.alloc(PARCEL_COUNTERS_BYTES);
    counters.writeDoubleBE(into.messages);
    counters.writeDoubleBE(into.bytes, 8);
    taken.push(Buffer.concat([counters, frames]));
    into.messages += messages;
    into.bytes += bytes;
  };
  if (fits) for (const { part, frames, bytes } of sent) take(frames.length, bytes, part);
  else {
    for (const [index, frame] of sent.flatMap(({ frames }) => frames).entries()) {
      const count = into.messages - out.messages;
      const over = count > 0 && into.bytes - out.bytes + frame.byteLength > field('bytes_max');
      if (count >= field('messages_max') || over) full.push(index + 1);
      else take(1, frame.byteLength, withLength(frame));
    }
  }
  if (taken.length > 0) {
    const counted = {
      messages_in: into.messages,
      bytes_in: into.bytes,
      messages_out: out.messages,
      bytes_out: out.bytes,
    };
    const fields = Object.entries(counted).map(([name, value]): [string, string] => [name, `${value}`]);
    redis.put(marker, new Map([...open, ...fields]));
    redis.put(list, [...waiting, ...taken]);
    if (first === undefined) redis.expire(list, Number(ttl));
  }
  return full;
};

function framesOf(part: Buffer): { readonly frames: readonly Buffer[]; readonly bytes: number } {
  const { frames } = readParcel(Buffer.concat([Buffer.alloc(PARCEL_COUNTERS_BYTES), part]));
  return { frames, bytes: sum(frames.map(({ byteLength }) => byteLength)) };
}

function withLength(frame: Buffer): Buffer {
  const length = Buffer.alloc(FRAME_LENGTH_BYTES);
  length.writeUInt32LE(frame.byteLength);
  return Buffer.concat([length, frame]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

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
  const [values = '', valueVersions = ''] = keys.slice(9);
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

  const share = () => {
    const [name = '', text = '', known, only, countMax] = given;
    const versions = redis.hash(valueVersions);
    const held = Number(versions.get(name)?.replace(/^\d+ /, '') ?? 0);
    if (only === '1' && held > Number(known)) return 0;
    if (held === 0 && versions.size >= Number(countMax)) return -1;
    const next = Math.max(held, Number(known)) + 1;
    setField(values, name, text);
    setField(valueVersions, name, `${version + 1} ${next}`);
    changed = true;
    return next;
  };

  const verbs: Readonly<Record<string, () => unknown>> = {
    beat,
    acquire,
    publish: write,
    withdraw: write,
    value: share,
    register() {
      const [id = '', role, draining, ms] = given;
      processes.put(id, `${role} ${draining}`, Number(ms));
      changed = true;
      return 1;
    },
    retell() {
      const [id = '', role, state] = given;
      if (processes.get(id) === undefined) return 1;
      setField(processesKey, id, `${role} ${state}`);
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
  if (redis.nowMs() >= grace && redis.hash(processesKey).size === 0 && redis.exists(valueVersions)) {
    redis.delete(values);
    redis.delete(valueVersions);
    changed = true;
  }

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
  const shared = [...redis.hash(valueVersions)];
  const changedValues = shared.filter(([, at]) => sinceRun !== run || Number.parseInt(at, 10) > Number(sinceVersion));
  const valueTexts = changedValues.flatMap(([name]) => [name, redis.hash(values).get(name) ?? '']);
  const names = versions.map(([model]) => model);
  return [...head, processes.flat(), owners.flat(), names, texts, shared.flat(), valueTexts];
}
