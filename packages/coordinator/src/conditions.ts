/**
 * Waiting for something to become true of the coordinator's state: a load settled, a queue empty.
 * Whoever changes the state calls `check`; so waiting needs no timers and cannot miss a change.
 */
export interface Conditions {
  /** True once the condition holds, at once or at a later check; false where the wait was abandoned. */
  wait(condition: () => boolean): Promise<boolean>;
  check(): void;
  /** Ends all waits, now and later: those whose condition does not hold get false. */
  abandon(): void;
  readonly waits: number;
}

export function createConditions(): Conditions {
  const waits = new Set<{ readonly condition: () => boolean; readonly resolve: (held: boolean) => void }>();
  let abandoned = false;

  const check = () => {
    for (const wait of waits) {
      const held = wait.condition();
      if (!held && !abandoned) continue;
      waits.delete(wait);
      wait.resolve(held);
    }
  };

  return {
    wait(condition) {
      return new Promise((resolve) => {
        waits.add({ condition, resolve });
        check();
      });
    },
    check,
    abandon() {
      abandoned = true;
      check();
    },
    get waits() {
      return waits.size;
    },
  };
}
