import { Socket } from 'node:net';
import { type ConnectionOptions, TLSSocket } from 'node:tls';
import { NereidError } from '@nereid/protocol';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { parseRedisUrl, type RedisAddress } from './redis-url.ts';

/** The first reconnect comes quickly, then each wait is twice the one before. */
const RECONNECT_MS_MIN = 20;
const RECONNECT_MS_MAX = 1_000;
const CONNECT_MS_MAX = 5_000;
/** A connection that owes an answer and is silent for so long is dead; above BLOCKING_S_MAX, with room for a stall. */
const SILENCE_MS_MAX = 10_000;
/** The longest wait that a blocking command may ask for. */
export const BLOCKING_S_MAX = 5;
/** The longest wait for its disk; shorter than any caller waits for an answer. */
export const REDIS_SYNC_MS_MAX = 4_000;
/** While Redis reads its data set it answers nothing but INFO; asked again after this. */
const LOADING_LOOK_MS = 100;
/** Redis breaks the connection of who sends a longer value (its proto-max-bulk-len). */
export const REDIS_VALUE_BYTES_MAX = 536_870_912;

export type RedisClient = Redis | Cluster;

/** Replies keep the client's ordinary shapes. */
type SingleOptions = Omit<RedisOptions, 'replyMapping'>;

/**
 * One named connection (to a Cluster: one to each node in use). It dials at the first `ready`, then redials for ever.
 * Nothing is queued while it is away: a command issued then, or under way when it is lost, is rejected and never sent
 * again. So a caller awaits `ready` first, and decides itself what to repeat.
 */
export interface RedisConnection {
  readonly client: RedisClient;
  /** True while commands are taken. */
  readonly isReady: boolean;
  /**
   * All that was sent is the system's to deliver, also if this process is killed now. False where that is not known: over
   * TLS, and in a Cluster.
   */
  readonly isHandedOver: boolean;
  /** The `run_id` of the server last connected to; undefined where INFO is hidden, and in a Cluster. */
  readonly runId: string | undefined;
  /** Why it was lost last. */
  readonly lastError: Error | undefined;
  /** Resolves once commands are taken; rejects with UNAVAILABLE once closed. */
  ready(): Promise<void>;
  /** Calls back at each loss of a connection that was ready, and each time that it is ready (again). Returns how to stop. */
  watch(listener: (event: 'lost' | 'ready') => void): () => void;
  close(): void;
}

export interface RedisConnector {
  /** Without user and password, for logs and messages. */
  readonly url: string;
  readonly cluster: boolean;
  /** A connection named `nereid:<role>:<id>:<purpose>`. `once`: one attempt, then it is closed. */
  connect(purpose: string, options?: { readonly once?: boolean }): RedisConnection;
  /** Closes every connection that it made. */
  close(): void;
}

export interface RedisConnectorOptions {
  /** `<role>:<id>`: who connects. */
  readonly name: string;
  /** Of rediss:// (and of redis-sentinel:// where given): `ca`, `cert`, `key` and the like. */
  readonly tls?: ConnectionOptions;
}

/** Makes the connections to one Redis. Dials nothing yet; throws INVALID_ARG where the URL cannot be read. */
export function connectRedis(url: string, options: RedisConnectorOptions): RedisConnector {
  const address = parseRedisUrl(url);
  const connections = new Set<RedisConnection>();
  return {
    url: address.shown,
    cluster: address.form.type === 'cluster',
    connect(purpose, { once = false } = {}) {
      const client = createClient(address, `nereid:${options.name}:${purpose}`, once, options.tls);
      const connection = createConnection(client, address, () => connections.delete(connection));
      connections.add(connection);
      return connection;
    },
    close() {
      for (const connection of connections) connection.close();
    },
  };
}

function reconnectMs(attempt: number): number {
  return Math.min(RECONNECT_MS_MIN * 2 ** (attempt - 1), RECONNECT_MS_MAX);
}

function createClient(address: RedisAddress, name: string, once: boolean, tls?: ConnectionOptions): RedisClient {
  const { form } = address;
  const retry = once ? null : reconnectMs;
  const common = {
    connectionName: name,
    ...(address.username === undefined ? {} : { username: address.username }),
    ...(address.password === undefined ? {} : { password: address.password }),
    connectTimeout: CONNECT_MS_MAX,
    socketTimeout: SILENCE_MS_MAX,
    // What was under way when the connection broke is rejected at once and never sent again.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    // A former primary, after a failover: find the new one.
    reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
    disableClientInfo: true,
  } satisfies RedisOptions;
  if (form.type === 'cluster') {
    return new Cluster([...form.nodes], {
      lazyConnect: true,
      enableOfflineQueue: false,
      // Waiting inside the client would overtake or repeat; 0 hands the error to the caller.
      retryDelayOnFailover: 0,
      clusterRetryStrategy: retry,
      redisOptions: { ...common, ...(address.tls ? { tls: tls ?? {} } : {}) },
    });
  }
  const single: SingleOptions = {
    ...common,
    db: address.db,
    lazyConnect: true,
    enableOfflineQueue: false,
    // `createConnection` asks INFO itself: it wants the run id too.
    enableReadyCheck: false,
    retryStrategy: retry,
  };
  switch (form.type) {
    case 'socket':
      return new Redis({ ...single, path: form.path });
    case 'host':
      return new Redis({
        ...single,
        ...form.host,
        ...(address.tls ? { tls: { servername: form.host.host, ...tls } } : {}),
      });
    case 'sentinel':
      return new Redis({
        ...single,
        sentinels: [...form.sentinels],
        name: form.master,
        ...(once ? { sentinelRetryStrategy: () => null } : {}),
        ...(tls === undefined ? {} : { tls, enableTLSForSentinelMode: true, sentinelTLS: tls }),
      });
  }
}

/**
 * States: *away* (not dialled, dialling, or lost), *greeting* (connected; INFO says whether the data set is read and
 * who it is), *ready*, *closed*. Only `ready` takes commands; each loss leads back to *away* until closed.
 */
function createConnection(client: RedisClient, address: RedisAddress, forget: () => void): RedisConnection {
  const listeners = new Set<(event: 'lost' | 'ready') => void>();
  let state: 'away' | 'greeting' | 'ready' | 'closed' = 'away';
  let runId: string | undefined;
  let lastError: Error | undefined;
  let greetingAgain: NodeJS.Timeout | undefined;
  let waiting: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];

  // The client notices a broken socket a little before its events say so.
  const isReady = () =>
    state === 'ready' && client.status === 'ready' && (client instanceof Cluster || client.stream.writable);
  const tell = (event: 'lost' | 'ready') => {
    for (const listener of [...listeners]) if (listeners.has(listener)) listener(event);
  };
  const becomeReady = () => {
    state = 'ready';
    const waited = waiting;
    waiting = [];
    for (const wait of waited) wait.resolve();
    tell('ready');
  };
  const unavailable = () =>
    new NereidError(
      'UNAVAILABLE',
      `no connection to Redis at ${address.shown}${lastError === undefined ? '' : `: ${lastError.message}`}`,
      {
        cause: lastError,
      },
    );
  const greet = async (single: Redis) => {
    const info = await serverInfo(single);
    if (state !== 'greeting') return;
    if (info === undefined) {
      // The connection broke again, which its own event reports, or Redis refused; both end in a new attempt.
      single.disconnect(true);
    } else if (info.loading) {
      greetingAgain = setTimeout(() => void greet(single), LOADING_LOOK_MS);
    } else if (info.replica && address.form.type === 'sentinel') {
      // The sentinel's word was old: ask again.
      single.disconnect(true);
    } else {
      runId = info.runId;
      becomeReady();
    }
  };
  const onConnected = () => {
    if (state === 'closed') return;
    state = 'greeting';
    if (client instanceof Redis) void greet(client);
    else becomeReady();
  };
  const onGone = () => {
    const wasReady = state === 'ready';
    clearTimeout(greetingAgain);
    if (state !== 'closed') state = 'away';
    if (wasReady) tell('lost');
  };
  const close = () => {
    if (state === 'closed') return;
    state = 'closed';
    clearTimeout(greetingAgain);
    client.disconnect();
    const error = unavailable();
    for (const wait of waiting) wait.reject(error);
    waiting = [];
    listeners.clear();
    forget();
  };

  client.on('ready', onConnected);
  client.on('close', onGone);
  client.on('end', close);
  client.on('error', (error: Error) => {
    lastError = error;
  });

  return {
    client,
    get isReady() {
      return isReady();
    },
    get isHandedOver() {
      return isReady() && client instanceof Redis && isHandedOver(client.stream);
    },
    get runId() {
      return runId;
    },
    get lastError() {
      return lastError;
    },
    ready() {
      if (isReady()) return Promise.resolve();
      if (state === 'closed') return Promise.reject(unavailable());
      // A failed dial reaches `lastError` and is repeated; nobody waits for this promise itself.
      if (client.status === 'wait') client.connect().catch(() => {});
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    watch(listener) {
      const own = (event: 'lost' | 'ready') => listener(event);
      listeners.add(own);
      return () => void listeners.delete(own);
    },
    close,
  };
}

/** Node writes at once where the socket takes it, and else keeps the bytes. */
function isHandedOver(stream: Redis['stream']): boolean {
  return stream instanceof Socket && !(stream instanceof TLSSocket) && stream.writableLength === 0;
}

interface ServerInfo {
  readonly runId: string | undefined;
  readonly loading: boolean;
  readonly replica: boolean;
}

/** What INFO says; nothing is known where a rule hides it; undefined where there was no answer. */
async function serverInfo(client: Redis): Promise<ServerInfo | undefined> {
  let text: string;
  try {
    text = await client.info();
  } catch (error) {
    const hidden = error instanceof Error && error.message.startsWith('NOPERM');
    return hidden ? { runId: undefined, loading: false, replica: false } : undefined;
  }
  const fields = infoFields(text);
  return {
    runId: fields.get('run_id'),
    loading: fields.get('loading') === '1',
    replica: fields.get('role') === 'slave',
  };
}

/** True for an answer of Redis that says no, after which nothing was done; false where the connection broke. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/** Redis refuses to hold more (maxmemory), which no second try changes. */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && error.message.includes('OOM command not allowed');
}

/** The `name:value` lines of INFO. */
export function infoFields(text: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0 && !line.startsWith('#')) fields.set(line.slice(0, colon), line.slice(colon + 1));
  }
  return fields;
}
