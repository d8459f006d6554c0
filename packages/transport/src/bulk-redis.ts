import { errorInfo, NereidError } from '@nereid/protocol';
import { answeredWithin, type Clock } from '@nereid/runtime';
import type { BulkChunk, BulkRecord, BulkState, BulkStore, LineResult, NewBulk, Put } from './bulk.ts';
import { bulkScripts } from './bulk-scripts.ts';
import { parsePublicJobId } from './jobs-names.ts';
import { isOutOfMemory, type RedisConnector } from './redis-connection.ts';
import { redisKeys } from './redis-keys.ts';
import { redisMemory } from './redis-memory.ts';
import { createSyncedWrites } from './synced-writes.ts';

/** How long an answer of Redis is waited for. */
const ANSWER_MS_MAX = 5_000;
/** An upload of which nothing more comes. */
const UPLOAD_TTL_S = 600;
const ALL = 'all';

export interface BulkStoreOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
  /** A batch is on Redis' disk before it is told to be there (WAITAOF). */
  readonly waitsForDisk: boolean;
}

/** Batches in Redis, on a connection of their own, which is dialled at the first use. */
export function createBulkStore({ connector, prefix, clock, waitsForDisk }: BulkStoreOptions): BulkStore {
  const keys = redisKeys(prefix);
  const connection = connector.connect('bulk');
  const { client } = connection;
  const scripts = bulkScripts(client);
  const ofBatch = (id: string) => [keys.bulk(id), keys.bulkLines(id), keys.bulkResults(id), keys.bulkDone(id)];
  const now = () => String(clock.wallMs());

  // What is on disk behind it, is there too.
  const committed = waitsForDisk ? connector.connect('bulk-commit') : connection;
  const committing = waitsForDisk ? bulkScripts(committed.client) : scripts;
  const synced = waitsForDisk ? createSyncedWrites(committed, keys.synced(ALL)) : undefined;
  const safely = <T>(write: () => Promise<T>): Promise<T> =>
    ask(() => (synced === undefined ? write() : synced.run(write)), committed);

  const ask = async <T>(question: () => Promise<T>, by = connection): Promise<T> => {
    try {
      if (!by.isReady) await answeredWithin(by.ready(), ANSWER_MS_MAX, clock);
      return await answeredWithin(question(), ANSWER_MS_MAX, clock);
    } catch (cause) {
      const text = `Redis at ${connector.url} does not answer for batches now: ${errorInfo(cause).message}`;
      throw new NereidError('UNAVAILABLE', text, { cause });
    }
  };

  /** Of a write that Redis may have no memory for. */
  const write = async (command: () => Promise<unknown>): Promise<Put> => {
    try {
      return (await ask(command)) === 0 ? 'gone' : 'put';
    } catch (error) {
      if (isOutOfMemory((error as NereidError).cause)) return 'full';
      throw error;
    }
  };

  const find = async (id: string): Promise<BulkRecord | undefined> =>
    recordOf(id, await ask(() => client.hgetall(keys.bulk(id))));

  return {
    async open(batch) {
      const fields = fieldsOf(batch);
      const opened = await write(async () => {
        await client.hset(keys.bulk(batch.id), ...fields);
        await client.expire(keys.bulk(batch.id), UPLOAD_TTL_S);
      });
      if (opened !== 'put') return opened;
      // Before it is told to anybody: who finds it is not there any more, forgets it.
      return write(async () => {
        await client.zadd(keys.bulkActive(ALL), batch.createdMs, batch.id);
        // By their ids, which begin with their time.
        await client.zadd(keys.bulkKnown(batch.model), 0, batch.id);
      });
    },
    put: (id, chunk, from, lines) =>
      write(() =>
        scripts.put([keys.bulk(id), keys.bulkLines(id)], [UPLOAD_TTL_S, chunk, `${from}\n${lines.join('\n')}`]),
      ),
    async commit(id, lines) {
      const done = await safely(() => committing.commit([keys.bulk(id), keys.bulkLines(id)], [lines]));
      return done === 0 ? undefined : find(id);
    },
    find,
    async page(model, after, limit) {
      const from = after === '' ? '+' : `(${after}`;
      const ids = await ask(() => client.zrevrangebylex(keys.bulkKnown(model), from, '-', 'LIMIT', 0, limit));
      const found = await Promise.all(ids.map(find));
      for (const [index, id] of ids.entries()) {
        // One that is still uploaded comes later.
        const isGone = found[index] === undefined && (await ask(() => client.exists(keys.bulk(id)))) === 0;
        if (isGone) await ask(() => client.zrem(keys.bulkKnown(model), id));
      }
      const batches = found.filter((record) => record !== undefined);
      return { batches, next: ids.length < limit ? '' : (ids.at(-1) ?? '') };
    },
    active: () => ask(() => client.zrangebyscore(keys.bulkActive(ALL), '-inf', '+inf')),
    forgetActive: async (id) => void (await ask(() => client.zrem(keys.bulkActive(ALL), id))),
    async chunk(id, chunk) {
      const text = await ask(() => client.hget(keys.bulkLines(id), String(chunk)));
      if (text === null) return undefined;
      const [from = '0', ...lines] = text.split('\n');
      if (lines.length === 0) return { from: 0, lines, done: [] };
      return chunkOf(Number(from), lines, await doneFrom(id, Number(from), lines.length));
    },
    async settle(id, results) {
      const args = results.flatMap(({ line, ok, text }) => [line, ok ? 'completed' : 'failed', text]);
      return stateOf(await ask(() => scripts.settle(ofBatch(id), [now(), ...args])));
    },
    async end(id, how, error) {
      const args = error === undefined ? [now(), how] : [now(), how, JSON.stringify(error)];
      return stateOf(await safely(() => committing.end(ofBatch(id), args)));
    },
    clear: async (id, chunk) => void (await ask(() => scripts.clear([keys.bulkLines(id)], [chunk]))),
    async results(id, from, count) {
      const lines = Array.from({ length: count }, (_, index) => from + index);
      if (lines.length === 0) return [];
      const texts = await ask(() => client.hmget(keys.bulkResults(id), ...lines.map(String)));
      return texts.flatMap((text, index): LineResult[] =>
        text === null ? [] : [{ line: from + index, ok: text.startsWith('c'), text: text.slice(1) }],
      );
    },
    async remove(id) {
      const { model } = parsePublicJobId(id) ?? { model: '' };
      await ask(async () => {
        await client.unlink(...ofBatch(id));
        await client.zrem(keys.bulkActive(ALL), id);
        await client.zrem(keys.bulkKnown(model), id);
      });
    },
    memory: () => ask(() => redisMemory(client)),
    close() {
      connection.close();
      committed.close();
    },
  };

  async function doneFrom(id: string, from: number, count: number): Promise<Buffer> {
    const bytes = await ask(() =>
      client.getrangeBuffer(keys.bulkDone(id), Math.floor(from / 8), Math.floor((from + count) / 8)),
    );
    return bytes;
  }
}

/** `bits`: from the byte on that has the first line's. */
function chunkOf(from: number, lines: readonly string[], bits: Buffer): BulkChunk {
  const isDone = (line: number) => {
    const byte = bits[Math.floor(line / 8) - Math.floor(from / 8)] ?? 0;
    // SETBIT counts from the highest bit of a byte.
    return (byte & (0x80 >> (line % 8))) !== 0;
  };
  return { from, lines, done: lines.map((_, index) => isDone(from + index)) };
}

function fieldsOf(batch: NewBulk): (string | number)[] {
  const { model, version, createdMs, deadlineMs, ttlS, attempts } = batch;
  const said = { model, version, created: createdMs, deadline: deadlineMs, ttl: ttlS, attempts };
  return Object.entries({ state: 'uploading', count: 0, completed: 0, failed: 0, ...said }).flat();
}

/** Undefined where there is none, or not yet. */
function recordOf(id: string, fields: Readonly<Record<string, string>>): BulkRecord | undefined {
  const { state, model } = fields;
  if (state === undefined || model === undefined || state === 'uploading') return undefined;
  const number = (name: string) => Number(fields[name] ?? 0);
  const time = (name: string) => (fields[name] === undefined ? undefined : number(name));
  return {
    id,
    model,
    version: fields.version ?? '',
    state: state as BulkState,
    lines: number('count'),
    completed: number('completed'),
    failed: number('failed'),
    createdMs: number('created'),
    startedMs: time('started'),
    finishedMs: time('finished'),
    deadlineMs: number('deadline'),
    ttlS: number('ttl'),
    attempts: number('attempts'),
    error: fields.error === undefined ? undefined : (JSON.parse(fields.error) as BulkRecord['error']),
  };
}

function stateOf(answer: unknown): BulkState | undefined {
  return typeof answer === 'string' ? (answer as BulkState) : undefined;
}
