/**
 * What instances need of resources and how much of each there is (Triton's
 * docs/user_guide/rate_limiter.md; core/src/rate_limiter.cc, UpdateResourceLimits).
 */
import type { ResourceLimit } from '@nereid/config';
import type { ErrorInfo } from '@nereid/protocol';

/** A resource that an instance needs for each execution. */
export interface NeededResource {
  readonly name: string;
  readonly count: number;
  /** There is one stock of it for all workers, not one a device. */
  readonly global: boolean;
}

export interface ResourceUser {
  /** Of the instance; instances that run on no GPU share device 0. */
  readonly device: number;
  readonly resources: readonly NeededResource[];
}

/** How much of each resource, by its name. */
export type ResourceCounts = ReadonlyMap<string, number>;

/** The resources of each device, and those that all share. */
export interface Stock {
  readonly devices: ReadonlyMap<number, ResourceCounts>;
  readonly shared: ResourceCounts;
}

export type NeededStock = { readonly local: ResourceCounts; readonly shared: ResourceCounts };

/** Of a resource that a config lists twice the last count holds. */
export function neededStock({ resources }: ResourceUser): NeededStock {
  const local = new Map<string, number>();
  const shared = new Map<string, number>();
  for (const { name, count, global } of resources) (global ? shared : local).set(name, count);
  return { local, shared };
}

/**
 * What there is for these instances: of each resource as much as the greediest needs or, where there
 * are `explicit` limits, what those say and nothing of what they do not name. INVALID_ARG in Triton's
 * words where that does not do for an instance, or where a name is both global and of a device.
 */
export function availableStock(
  users: Iterable<ResourceUser>,
  explicit: readonly ResourceLimit[],
): { readonly ok: true; readonly stock: Stock } | { readonly ok: false; readonly error: ErrorInfo } {
  const devices = new Map<number, Map<string, number>>();
  const shared = new Map<string, number>();
  for (const user of users) {
    const needed = neededStock(user);
    const device = devices.get(user.device) ?? new Map<string, number>();
    devices.set(user.device, device);
    raise(device, needed.local);
    raise(shared, needed.shared);
  }
  if (explicit.length > 0) {
    const scopes = [...devices].map(([device, counts]) => ({ counts, limit: limitOn(explicit, device) }));
    for (const { counts, limit } of [...scopes, { counts: shared, limit: limitOfShared(explicit) }]) {
      for (const [name, needed] of counts) {
        const available = limit(name);
        if (available < needed) return refused(tooLittle(name, available, needed));
        counts.set(name, available);
      }
    }
  }
  for (const name of shared.keys()) {
    if ([...devices.values()].some((counts) => counts.has(name))) return refused(twoScopes(name));
  }
  return { ok: true, stock: { devices, shared } };
}

function raise(counts: Map<string, number>, to: ResourceCounts): void {
  for (const [name, count] of to) counts.set(name, Math.max(counts.get(name) ?? 0, count));
}

/** Given twice for the same devices the smaller count holds; of one for a device and one for all the greater. */
function limitOn(explicit: readonly ResourceLimit[], device: number): (name: string) => number {
  return (name) => {
    const given = named(explicit, name);
    const here = given.filter((limit) => limit.device === device);
    const everywhere = given.filter((limit) => limit.device === undefined);
    return Math.max(smallest(here), smallest(everywhere));
  };
}

/** The device of a limit does not matter for what all share: the greatest counts. */
function limitOfShared(explicit: readonly ResourceLimit[]): (name: string) => number {
  return (name) => {
    const given = named(explicit, name);
    const devices = new Set(given.map(({ device }) => device));
    return Math.max(0, ...[...devices].map((device) => smallest(given.filter((limit) => limit.device === device))));
  };
}

/** Triton's help promises this, its code compares letter by letter. */
function named(explicit: readonly ResourceLimit[], name: string): readonly ResourceLimit[] {
  return explicit.filter((limit) => limit.name.toLowerCase() === name.toLowerCase());
}

function smallest(limits: readonly ResourceLimit[]): number {
  return limits.length === 0 ? 0 : Math.min(...limits.map(({ count }) => count));
}

function refused(message: string): { readonly ok: false; readonly error: ErrorInfo } {
  return { ok: false, error: { code: 'INVALID_ARG', message } };
}

function tooLittle(name: string, available: number, needed: number): string {
  const wanted = `the minimum required count is ${needed}`;
  return `Resource count for "${name}" is limited to ${available} which will prevent scheduling of one or more model instances, ${wanted}`;
}

function twoScopes(name: string): string {
  return `Resource "${name}" is present as both global and device-specific resource in the model configuration.`;
}
