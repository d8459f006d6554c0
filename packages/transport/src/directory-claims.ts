import type { Epoch, ProcessId } from '@nereid/protocol';
import type { HostingRecord, ProcessRecord } from './directory.ts';
import { processState } from './directory-answer.ts';
import type { Timing } from './timing.ts';

/** The call that granted or renewed something. */
export interface Grant {
  /** When it was *sent*, by this process's own clock: Redis counts from later. */
  readonly sentUs: number;
  /** The run that granted it. */
  readonly run: string;
  /** When it ran, in Redis' time. */
  readonly redisMs: number;
}

interface Registration extends Grant {
  readonly process: ProcessRecord;
}

interface Lease extends Grant {
  readonly epoch: Epoch;
}

/**
 * What this process holds in Redis: its registrations and leases. Each is held from the answer that
 * granted it until it is given back or an answer says that it is gone, and is *surely* held while
 * the last good renewal was sent less than its time minus the margin ago (R5, R10).
 */
export interface DirectoryClaims {
  registered(id: ProcessId, nowUs: number): boolean;
  holds(model: string, owner: ProcessId, nowUs: number): boolean;
  /** The owner of the lease held here. */
  ownerHere(model: string): ProcessId | undefined;
  register(process: ProcessRecord, grant: Grant): void;
  /** What it tells of itself from now on; undefined where it is not registered. */
  retell(id: ProcessId, hosting: HostingRecord): ProcessRecord | undefined;
  process(id: ProcessId): ProcessRecord | undefined;
  leave(id: ProcessId): void;
  acquire(model: string, epoch: Epoch, grant: Grant): void;
  release(model: string, owner: ProcessId): void;
  /** How long a registration of this role lasts. */
  ttlMs(process: ProcessRecord): number;
  /** A renewal of all that is held now. */
  renewal(): Renewal;
}

export interface Renewal {
  /** Of the verb `beat`. */
  readonly args: readonly string[];
  /** Takes the verb's result in; returns the registrations that lapsed. */
  settle(result: unknown, grant: Grant): readonly ProcessId[];
}

export function createDirectoryClaims(timing: Timing): DirectoryClaims {
  const registrations = new Map<ProcessId, Registration>();
  const leases = new Map<string, Lease>();

  const ttlMs = (process: ProcessRecord) =>
    process.role === 'worker' ? timing.worker_registration_ms : timing.registration_ms;
  const isSure = (granted: Grant | undefined, ms: number, nowUs: number) =>
    granted !== undefined && nowUs < granted.sentUs + (ms - timing.margin_ms) * 1000;
  const registered = (id: ProcessId, nowUs: number) => {
    const registration = registrations.get(id);
    return registration !== undefined && isSure(registration, ttlMs(registration.process), nowUs);
  };

  return {
    registered,
    holds(model, owner, nowUs) {
      const lease = leases.get(model);
      return lease?.epoch.owner === owner && isSure(lease, timing.lease_ms, nowUs);
    },
    ownerHere: (model) => leases.get(model)?.epoch.owner,
    register: (process, grant) => void registrations.set(process.id, { process, ...grant }),
    retell(id, hosting) {
      const registration = registrations.get(id);
      if (registration === undefined) return undefined;
      const process = { ...registration.process, hosting };
      registrations.set(id, { ...registration, process });
      return process;
    },
    process: (id) => registrations.get(id)?.process,
    leave: (id) => void registrations.delete(id),
    acquire: (model, epoch, grant) => void leases.set(model, { epoch, ...grant }),
    release(model, owner) {
      if (leases.get(model)?.epoch.owner === owner) leases.delete(model);
    },
    ttlMs,
    renewal() {
      const asked = [...registrations];
      const leased = [...leases];
      const args = [`${timing.lease_ms}`, `${asked.length}`];
      for (const [id, { process, run, redisMs }] of asked) {
        const ttl = ttlMs(process);
        args.push(id, process.role, processState(process), `${ttl}`, run, `${redisMs + ttl}`);
      }
      for (const [model, { epoch, run }] of leased) args.push(model, epoch.owner, `${epoch.number}`, run);
      return {
        args,
        settle(result, grant) {
          const [kept, numbers] = result as readonly [readonly unknown[], readonly unknown[]];
          leased.forEach(([model, lease], n) => {
            // What was given back meanwhile stays so.
            if (leases.get(model) !== lease) return;
            const number = Number(numbers[n]);
            if (number === 0) leases.delete(model);
            else leases.set(model, { epoch: { number, owner: lease.epoch.owner }, ...grant });
          });
          const lapsed = asked.filter(
            ([id, registration], n) => registrations.get(id) === registration && Number(kept[n]) !== 1,
          );
          for (const [id] of lapsed) registrations.delete(id);
          for (const [id, registration] of asked) {
            if (registrations.get(id) === registration) registrations.set(id, { ...registration, ...grant });
          }
          return lapsed.map(([id]) => id);
        },
      };
    },
  };
}
