/** What is made of workers' claims on shared resources: a pure step, the same as that of the script in Redis. */
import type { ProcessId } from '@nereid/protocol';
import { NO_RESOURCES, type ResourceClaim, type ResourceCounts } from './shared-resources.ts';

/** A claim as it is kept. */
export interface KeptClaim extends ResourceClaim {
  /** The place of its wish in the order of wishes; 0 for none. */
  readonly ticket: number;
  /** The wish that was granted and may not be known to be: its resources are among those held. */
  readonly granted: number;
}

export interface KeptClaims {
  readonly claims: ReadonlyMap<ProcessId, KeptClaim>;
  /** The last ticket given out. */
  readonly tickets: number;
}

export interface ClaimOutcome extends KeptClaims {
  readonly granted: boolean;
  /** Others whose wishes could be granted: each is to tell its claim again. */
  readonly wake: readonly ProcessId[];
}

/**
 * Takes in the claim of a worker, undefined for none any more, by all others that live; `claims` has no
 * others. With `grants` false nothing is granted.
 */
export function takeClaim(
  { claims, tickets }: KeptClaims,
  worker: ProcessId,
  claim: ResourceClaim | undefined,
  grants: boolean,
): ClaimOutcome {
  const before = claims.get(worker);
  const kept = new Map(claims);
  let last = tickets;
  if (claim === undefined) kept.delete(worker);
  else if (claim.wanted.size === 0) kept.set(worker, { ...claim, ticket: 0, granted: 0 });
  else if (before?.granted === claim.wish) kept.set(worker, grantedClaim(claim));
  else {
    const waits = before?.wish === claim.wish && before.ticket > 0;
    if (!waits) last++;
    kept.set(worker, { ...claim, ticket: waits ? before.ticket : last, granted: 0 });
  }
  const wake = grants ? grantable(kept) : [];
  if (claim !== undefined && wake.includes(worker)) kept.set(worker, grantedClaim(claim));
  const granted = claim !== undefined && kept.get(worker)?.granted === claim.wish && claim.wanted.size > 0;
  return { claims: kept, tickets: last, granted, wake: wake.filter((id) => id !== worker) };
}

/** Whose wishes can be granted together, those that have waited longest first. */
function grantable(claims: ReadonlyMap<ProcessId, KeptClaim>): readonly ProcessId[] {
  const limits = new Map<string, number>();
  const used = new Map<string, number>();
  for (const claim of claims.values()) {
    for (const [name, count] of claim.limits) limits.set(name, Math.max(limits.get(name) ?? 0, count));
    add(used, claim.held);
  }
  const blocked = new Set<string>();
  const waiting = [...claims].filter(([, { ticket }]) => ticket > 0).sort(([, a], [, b]) => a.ticket - b.ticket);
  return waiting.flatMap(([worker, { wanted }]) => {
    const fits = [...wanted].every(
      ([name, count]) => !blocked.has(name) && (used.get(name) ?? 0) + count <= (limits.get(name) ?? 0),
    );
    if (fits) add(used, wanted);
    else for (const name of wanted.keys()) blocked.add(name);
    return fits ? [worker] : [];
  });
}

function grantedClaim(claim: ResourceClaim): KeptClaim {
  const held = new Map(claim.held);
  add(held, claim.wanted);
  return { ...claim, held, wanted: NO_RESOURCES, ticket: 0, granted: claim.wish };
}

function add(to: Map<string, number>, counts: ResourceCounts): void {
  for (const [name, count] of counts) to.set(name, (to.get(name) ?? 0) + count);
}
