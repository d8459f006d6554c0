import { randomUUID } from 'node:crypto';
import type { Epoch } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import type { Directory, DirectoryChange } from './directory.ts';
import { type DirectoryAnswer, processState } from './directory-answer.ts';
import { createDirectoryBeliefs } from './directory-beliefs.ts';
import { createDirectoryCalls, type DirectoryCall } from './directory-calls.ts';
import { createDirectoryClaims, type Grant } from './directory-claims.ts';
import { createDirectoryLink, type DirectoryLink } from './directory-link.ts';
import { checkValue, type SharedValue, tooManyValues, VALUES_MAX } from './directory-values.ts';
import { createHeartbeat } from './heartbeat.ts';
import type { RedisConnector } from './redis-connection.ts';
import type { Timing } from './timing.ts';
import { createWatchers } from './watchers.ts';

/** A call that failed is repeated after this part of a heartbeat, until its time is over. */
const REPEATS_PER_HEARTBEAT = 10;
/** A writer is remembered for so many leases: no command can be later than that. */
const WRITER_LEASES = 30;

export interface DirectoryOptions<R> {
  readonly log: Log;
  readonly clock: Clock;
  readonly timing: Timing;
  readonly encode: (record: R) => string;
  readonly decode: (text: string) => R;
}

export interface RedisDirectoryOptions<R> extends DirectoryOptions<R> {
  readonly connector: RedisConnector;
  readonly prefix: string;
}

export interface RedisDirectory<R> extends Directory<R> {
  /** Subscribes, reads all, and begins to beat. Throws UNAVAILABLE where Redis does not answer. */
  start(): Promise<void>;
  /** Stops at once; gives nothing back, see `leave` and `release`. Idempotent. */
  close(): Promise<void>;
}

/** A directory in Redis, shared by all processes of that prefix. */
export function createRedisDirectory<R>(options: RedisDirectoryOptions<R>): RedisDirectory<R> {
  const link = createDirectoryLink(options.connector, options.prefix);
  return createDirectoryOver(link, options);
}

/**
 * The directory over a link. Heartbeats renew all that this process holds and bring what changed. A
 * notice that somebody changed something brings the next one forward; so does a new run of Redis, in
 * which everything has to be claimed and written again.
 */
export function createDirectoryOver<R>(link: DirectoryLink, options: DirectoryOptions<R>): RedisDirectory<R> {
  const { log, clock, timing, encode, decode } = options;
  const writer = randomUUID();
  const graceMs = Math.max(timing.lease_ms, timing.worker_registration_ms);
  const watchers = createWatchers<DirectoryChange>();
  const claims = createDirectoryClaims(timing);
  const beliefs = createDirectoryBeliefs<R>({
    graceUs: graceMs * 1000,
    decode,
    unreadable: (model, error) => log.error({ err: error, model }, 'record in the directory cannot be read'),
  });
  /** Records of this process's models, and the run that has each; undefined while it is being written. */
  const published = new Map<string, { readonly text: string; run: string | undefined }>();
  let noticed: string | undefined;
  let isAway = false;

  const calls = createDirectoryCalls({
    link,
    clock,
    patienceUs: timing.lease_ms * 1000,
    pauseUs: (timing.heartbeat_ms * 1000) / REPEATS_PER_HEARTBEAT,
    common(verb, sequence) {
      const { run, version } = beliefs.since(clock.nowUs());
      const known = [run, `${version}`, `${beliefs.highest}`];
      return [verb, link.channel, writer, `${sequence}`, ...known, `${graceMs}`, `${timing.lease_ms * WRITER_LEASES}`];
    },
  });

  /** What the others did, after `settle` has taken in what the verb granted. */
  const take = (answer: DirectoryAnswer, changes: readonly DirectoryChange[] = []) => {
    const nowUs = clock.nowUs();
    const { run } = beliefs.since(nowUs);
    for (const change of [...changes, ...beliefs.apply(answer, nowUs)]) watchers.tell(change);
    const isNewRun = run !== '' && run !== answer.run;
    if (isNewRun) log.warn({ run: answer.run }, 'Redis began anew: claiming again what this process holds');
    if (isNewRun || (noticed !== undefined && beliefs.isBehind(noticed))) heartbeat.soon();
    noticed = undefined;
  };

  /** A call of which nothing but the success is of interest. */
  const tell = (verb: DirectoryCall<void>['verb'], args: () => readonly string[], granted?: (grant: Grant) => void) =>
    calls.call<void>({
      verb,
      args,
      repeats: true,
      settle(answer, grant) {
        granted?.(grant);
        take(answer);
      },
    });

  const renew = (repeats: boolean) => {
    let renewal = claims.renewal();
    return calls.call<void>({
      verb: 'beat',
      repeats,
      args() {
        renewal = claims.renewal();
        return renewal.args;
      },
      settle(answer, grant) {
        const lapsed = renewal.settle(answer.result, grant);
        for (const id of lapsed) log.warn({ id }, 'registration lapsed');
        take(
          answer,
          lapsed.map((id) => ({ type: 'process', id })),
        );
        for (const [model, { text, run }] of published) {
          // A failure leaves it to the next heartbeat, which will report Redis as away.
          if (run !== undefined && run !== answer.run) write(model, text).catch(() => {});
        }
        for (const [name, { text, version }] of beliefs.lostValues())
          share(name, text, version - 1, true).catch(() => {});
      },
    });
  };

  const write = async (model: string, text: string) => {
    const entry: { readonly text: string; run: string | undefined } = { text, run: undefined };
    published.set(model, entry);
    try {
      await calls.call<void>({
        verb: 'publish',
        args: () => [model, text, claims.ownerHere(model) ?? ''],
        repeats: true,
        settle(answer) {
          entry.run = answer.run;
          if (answer.result === 0) {
            if (published.get(model) === entry) published.delete(model);
            log.warn({ model }, 'record not published: another process owns the model now');
          }
          take(answer);
        },
      });
    } finally {
      entry.run ??= '';
    }
  };

  /** `known`: the latest version that this process has seen; `only`: not where there is a later one. */
  const share = (name: string, text: string, known: number, only: boolean) =>
    calls.call<SharedValue | undefined>({
      verb: 'value',
      args: () => [name, text, `${known}`, only ? '1' : '0', `${VALUES_MAX}`],
      repeats: true,
      settle(answer) {
        take(answer);
        const version = Number(answer.result);
        if (version < 0) throw tooManyValues(name);
        return version === 0 ? undefined : { text, version };
      },
    });

  const heartbeat = createHeartbeat(clock, timing.heartbeat_ms * 1000, async () => {
    try {
      await renew(false);
      if (isAway) log.info('Redis answers again');
      isAway = false;
    } catch (error) {
      if (!isAway && !calls.isClosed) log.warn({ err: error }, 'Redis does not answer; what is held runs out');
      isAway = true;
    }
  });

  const onNotice = (notice: string) => {
    if (!beliefs.isBehind(notice)) return;
    // The answer under way may bring it, often it is the cause of it.
    if (calls.isBusy) noticed = notice;
    else heartbeat.soon();
  };

  return {
    async start() {
      const subscribed = link.subscribe(onNotice).catch((error) => {
        log.warn({ err: error }, 'no notices from Redis: changes come with the heartbeats only');
      });
      await renew(true);
      await subscribed;
      // It may have been closed meanwhile.
      if (!calls.isClosed) heartbeat.start();
    },
    async close() {
      heartbeat.stop();
      calls.close();
      link.close();
    },
    register(process) {
      const { id, role } = process;
      const args = () => [id, role, processState(process), `${claims.ttlMs(process)}`];
      return tell('register', args, (grant) => claims.register(process, grant));
    },
    async retell(id, hosting) {
      const process = claims.retell(id, hosting);
      if (process !== undefined)
        await tell('retell', () => [id, process.role, processState(claims.process(id) ?? process)]);
    },
    registered: (id) => claims.registered(id, clock.nowUs()),
    leave(id) {
      const args = () => {
        claims.leave(id);
        return [id];
      };
      // Also now: from here on nothing may rest on it.
      args();
      return tell('leave', args);
    },
    processes: (role) => beliefs.processes().filter((process) => process.role === role),
    acquire(model, owner, above = 0) {
      const wasOwner = () => claims.ownerHere(model) === owner || beliefs.owner(model)?.owner === owner;
      return calls.call<Epoch | undefined>({
        verb: 'acquire',
        args: () => [model, owner, `${timing.lease_ms}`, `${above}`, wasOwner() ? '1' : '0'],
        repeats: true,
        settle(answer, grant) {
          const number = Number(answer.result);
          const epoch = number === 0 ? undefined : { number, owner };
          if (epoch !== undefined) claims.acquire(model, epoch, grant);
          take(answer);
          return epoch;
        },
      });
    },
    release(model, owner) {
      const args = () => {
        claims.release(model, owner);
        return [model, owner];
      };
      args();
      return tell('release', args);
    },
    holds: (model, owner) => claims.holds(model, owner, clock.nowUs()),
    owner: beliefs.owner,
    publish: (model, record) => write(model, encode(record)),
    async withdraw(model) {
      published.delete(model);
      await tell('withdraw', () => [model, claims.ownerHere(model) ?? '']);
    },
    record: beliefs.record,
    records: beliefs.records,
    value: beliefs.value,
    async setValue(name, text, known) {
      checkValue(name, text);
      return share(name, text, known ?? beliefs.value(name)?.version ?? 0, known !== undefined);
    },
    watch: watchers.watch,
  };
}
