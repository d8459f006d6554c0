import type { ProcessId } from '@nereid/protocol';
import { type KeptClaims, takeClaim } from './resource-claims.ts';
import {
  isEmptyClaim,
  type ResourceClaim,
  type ResourceMember,
  type ResourceMemberParts,
  type SharedResources,
} from './shared-resources.ts';

interface LocalMember extends ResourceMemberParts {
  claim: ResourceClaim | undefined;
}

/** Resources that the workers of one process share. Wishes are granted in a microtask, never inside a call. */
export function createLocalResources(): SharedResources {
  const members = new Map<ProcessId, LocalMember>();
  let kept: KeptClaims = { claims: new Map(), tickets: 0 };
  let names = 0;

  const sync = (name: ProcessId) => {
    const member = members.get(name);
    const { granted, wake, ...next } = takeClaim(kept, name, member?.claim, true);
    kept = next;
    const wish = member?.claim?.wish;
    if (granted && wish !== undefined) member?.granted(wish);
    for (const other of wake) later(other);
  };
  const later = (name: ProcessId) => queueMicrotask(() => sync(name));

  return {
    open(parts): ResourceMember {
      // By names of its own: an id may change, and here nobody dies alone.
      const name = `${++names}`;
      const member: LocalMember = { ...parts, claim: undefined };
      members.set(name, member);
      return {
        tell(claim) {
          member.claim = isEmptyClaim(claim) ? undefined : claim;
          later(name);
        },
        look() {},
        async close() {
          members.delete(name);
          sync(name);
        },
      };
    },
  };
}
