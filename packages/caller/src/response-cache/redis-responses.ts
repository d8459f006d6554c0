import { decodeMessage, encodeMessage, type ResponseMessage } from '@nereid/protocol';
import { answeredWithin, type Clock, type Log } from '@nereid/runtime';
import { isRefusal, type RedisConnector, redisKeys } from '@nereid/transport';
import { answerBytes, type KeptAnswer, type ResponseStore } from './kept-answer.ts';

/** After an answer of Redis that came too late no request waits for another for so long; after a refusal nothing is kept. */
const PAUSE_MS = 1_000;
/** Above this part of its maxmemory a Redis that evicts nothing gets no more: jobs and messages need the rest. */
const MEMORY_SHARE_MAX = 0.8;

export interface RedisResponsesOptions {
  readonly connector: RedisConnector;
  readonly prefix: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly ttl_s: number;
  /** How long a look-up waits. */
  readonly answer_ms: number;
  readonly limits: {
    /** A larger answer is not kept. */
    readonly cache_entry_bytes_max: number;
    /** Of answers on their way to Redis; what comes beyond is not kept. */
    readonly cache_insert_bytes_max: number;
  };
}

/**
 * Answers in Redis, for all processes that share it and the key's prefix. Each is a frame of a `response`
 * (protocol/message-codec), which names its version: one of another build that cannot be read is a miss.
 *
 * It is *away* while there is no connection, and *paused* after an answer that came late: then every look-up is a miss at
 * once. So a Redis that is slow costs one look-up's wait a second, and one that is gone nothing.
 */
export function createRedisResponses(options: RedisResponsesOptions): ResponseStore {
  const { connector, clock, log, ttl_s, answer_ms, limits } = options;
  const keys = redisKeys(options.prefix);
  const connection = connector.connect('responses');
  const { client } = connection;
  let pausedUntilUs = 0;
  let slow = false;
  /** Not refused when it was last given one. */
  let takes = true;
  let inserting = 0;
  let fullUntilUs = 0;
  let lookedUs = Number.NEGATIVE_INFINITY;

  const unwatch = connection.watch((event) => {
    if (event === 'lost') log.warn({ redis: connector.url }, 'the response cache is away: requests run without it');
    else log.info({ redis: connector.url }, 'the response cache is there');
  });
  // Dialled for ever; nobody waits for it.
  connection.ready().catch(() => {});
  const firstLook = clock.at(clock.nowUs() + 2 * PAUSE_MS * 1000, () => {
    const { isReady, lastError: err } = connection;
    if (!isReady)
      log.warn({ err, redis: connector.url }, 'the response cache cannot be reached: requests run without it');
  });

  const isOff = () => !connection.isReady || clock.nowUs() < pausedUntilUs;

  const failed = (err: unknown) => {
    pausedUntilUs = clock.nowUs() + PAUSE_MS * 1000;
    if (!slow && connection.isReady) log.warn({ err }, 'the response cache does not answer as it should');
    slow = true;
  };

  const find = async (key: string): Promise<KeptAnswer | undefined> => {
    let frame: Buffer | null;
    try {
      frame = await answeredWithin(client.getBuffer(keys.response(key)), answer_ms, clock);
      slow = false;
    } catch (error) {
      failed(error);
      return undefined;
    }
    return frame === null ? undefined : answerIn(frame);
  };

  /** A Redis that evicts nothing must not be filled: what else is in it would be refused. */
  const look = async (): Promise<void> => {
    lookedUs = clock.nowUs();
    try {
      if (memoryIsTight(String(await client.call('INFO', 'memory')))) refused();
    } catch (error) {
      // Hidden from this user: a refusal alone says so then.
      if (!isRefusal(error)) throw error;
    }
  };

  const refused = () => {
    fullUntilUs = clock.nowUs() + PAUSE_MS * 1000;
  };

  const put = async (key: string, frame: Uint8Array): Promise<void> => {
    inserting += frame.byteLength;
    try {
      // A Cluster tells it by node; there a refusal alone says so.
      if (!connector.cluster && clock.nowUs() >= lookedUs + PAUSE_MS * 1000) await look();
      if (clock.nowUs() < fullUntilUs) return;
      const value = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
      await client.set(keys.response(key), value, 'EX', ttl_s);
      takes = true;
    } catch (error) {
      if (!isRefusal(error)) failed(error);
      else {
        if (takes) log.warn({ err: error }, 'the response cache takes no more answers');
        takes = false;
        refused();
      }
    } finally {
      inserting -= frame.byteLength;
    }
  };

  return {
    find: (key) => (isOff() ? undefined : find(key)),
    keep(key, answer) {
      const bytes = answerBytes(answer);
      if (isOff() || clock.nowUs() < fullUntilUs || bytes > limits.cache_entry_bytes_max) return undefined;
      return inserting + bytes > limits.cache_insert_bytes_max ? undefined : put(key, frameOf(answer));
    },
    close() {
      firstLook.cancel();
      unwatch();
      connection.close();
    },
  };
}

/** As a message, of which only the answer counts. */
function frameOf({ parameters, outputs }: KeptAnswer): Uint8Array {
  const response = { modelName: '', modelVersion: '', id: '', parameters, outputs };
  const message: ResponseMessage = {
    kind: 'response',
    model: '',
    id: '',
    outcome: { ok: true, response },
    execution: '',
    chunk: 0,
    last: true,
  };
  return encodeMessage(message);
}

function answerIn(frame: Buffer): KeptAnswer | undefined {
  try {
    const message = decodeMessage(frame);
    if (message.kind !== 'response' || !message.outcome.ok) return undefined;
    const { outputs, parameters } = message.outcome.response;
    const whole = outputs.filter((output) => 'data' in output);
    return whole.length === outputs.length ? { parameters, outputs: whole } : undefined;
  } catch {
    // Of another build, or no frame at all: a miss, and the request's own answer takes its place.
    return undefined;
  }
}

/** What `INFO memory` says of it. */
export function memoryIsTight(info: string): boolean {
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  const most = Number(field('maxmemory') ?? 0);
  const evicts = field('maxmemory_policy') !== 'noeviction';
  return most > 0 && !evicts && Number(field('used_memory') ?? 0) > most * MEMORY_SHARE_MAX;
}
