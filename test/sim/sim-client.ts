/** As much of ioredis' client as transport and directory use. */
import type { RedisConnection } from '@nereid/transport';
import type { Command } from './sim-flights.ts';
import type { SimRedis } from './sim-redis.ts';
import type { Script } from './sim-scripts.ts';

export interface SimClientOptions {
  readonly redis: SimRedis;
  readonly scripts: Readonly<Record<string, Script>>;
  readonly send: (command: Command) => Promise<unknown>;
  /** Takes a published notice to the process, or loses it. */
  readonly notice: (hear: () => void) => void;
  readonly breakUp: () => void;
}

export interface SimClient {
  readonly shown: RedisConnection['client'];
  /** Its connection is gone, and with it what Redis kept for it. */
  lose(): void;
}

export function createSimClient({ redis, scripts, send, notice, breakUp }: SimClientOptions): SimClient {
  const listeners: ((channel: string, notice: string) => void)[] = [];
  let subscriptions = new Set<() => void>();

  const atOnce = (act: () => unknown) =>
    send((answer) => {
      answer(act());
      return undefined;
    });

  const client: Record<string, unknown> = {
    defineCommand(name: string, { numberOfKeys }: { readonly numberOfKeys: number }) {
      const script = scripts[name];
      if (script === undefined) throw new Error(`the simulated Redis does not know the script '${name}'`);
      client[name] = (...all: readonly (string | number | Buffer)[]) => {
        const keys = all.slice(0, numberOfKeys).map(String);
        const args = all.slice(numberOfKeys).map((value) => (typeof value === 'number' ? `${value}` : value));
        return atOnce(() => script(redis, keys, args));
      };
    },
    blmpopBuffer: (waitS: number, _keys: number, list: string, _end: 'LEFT', _count: 'COUNT', count: number) =>
      send((answer) => redis.pop(list, count, waitS * 1000, answer)),
    del: (...keys: readonly string[]) => atOnce(() => keys.forEach(redis.delete)),
    // A string is kept as a list of one.
    set: (key: string, value: Buffer, _px: 'PX', ttlMs: number) =>
      atOnce(() => {
        redis.put(key, [value]);
        redis.expire(key, ttlMs);
        return 'OK';
      }),
    getBuffer: (key: string) => atOnce(() => redis.list(key)[0] ?? null),
    getdelBuffer: (key: string) => atOnce(() => scripts.getdel?.(redis, [key], []) ?? null),
    exists: (key: string) => atOnce(() => (redis.exists(key) ? 1 : 0)),
    pexpire: (key: string, ttlMs: number) => atOnce(() => redis.expire(key, ttlMs)),
    subscribe: (channel: string) =>
      atOnce(() => {
        const live = subscriptions;
        const stop = redis.subscribe(channel, (text) =>
          notice(() => {
            if (live === subscriptions) for (const listener of listeners) listener(channel, text);
          }),
        );
        live.add(stop);
        return 1;
      }),
    on(event: string, listener: (channel: string, notice: string) => void) {
      if (event === 'message') listeners.push(listener);
    },
    disconnect: breakUp,
  };

  return {
    shown: client as unknown as RedisConnection['client'],
    lose() {
      for (const stop of subscriptions) stop();
      subscriptions = new Set();
    },
  };
}
