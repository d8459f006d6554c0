import type { ProcessId } from '@nereid/protocol';

/** The smallest g of each sender that had no final outcome when it was last heard of. */
export interface SenderLows {
  heard(sender: ProcessId, low: number): void;
  /** Whether the sender waits for nothing up to that g. */
  passed(sender: ProcessId, g: number): boolean;
}

/** Of one that is forgotten nothing is known to be settled, which keeps more and loses nothing. */
const SENDERS_MAX = 1_024;

export function createSenderLows(): SenderLows {
  const lows = new Map<ProcessId, number>();
  return {
    heard(sender, low) {
      const known = lows.get(sender);
      if (known !== undefined && known >= low) return;
      lows.set(sender, low);
      if (known !== undefined || lows.size <= SENDERS_MAX) return;
      const [oldest] = lows.keys();
      if (oldest !== undefined) lows.delete(oldest);
    },
    passed: (sender, g) => g < (lows.get(sender) ?? 0),
  };
}
