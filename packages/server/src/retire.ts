import type { Gateway } from '@nereid/gateway';
import { type Clock, pause } from '@nereid/runtime';

export interface StopOptions {
  /** What was accepted has so long from the end of the pause. */
  readonly deadlineMs?: number;
  /** A server with a gateway is not ready, and takes requests, for so long first; 0 by default. */
  readonly pauseMs?: number;
}

/** The pause before a gateway stops: who sends requests has time to see that it is not ready. */
export async function retire(
  gateway: Pick<Gateway, 'retire'>,
  clock: Clock,
  { pauseMs = 0 }: StopOptions = {},
): Promise<void> {
  if (pauseMs === 0) return;
  gateway.retire();
  await pause(clock, pauseMs);
}
