/** A batch is held for at most this share of what one takes. */
const HOLD_SHARE = 1 / 4;
const HOLD_US_MAX = 5_000;
/** A shorter wait gathers nobody. */
const HOLD_US_MIN = 100;
/** Held only where at least so many of those who are expected come: then it gains more rows than it costs time. */
const RETURNING_MIN = 0.7;
/** The share moves by an eighth of each difference. */
const WEIGHT = 1 / 8;

/** Those who got an answer at one time and may ask again at once. */
interface Window {
  readonly endUs: number;
  readonly expected: number;
  came: number;
}

/**
 * Whether the clients that have just been answered ask again at once, and how long to hold a batch for them.
 *
 * Where each client has one request in flight, the requests of a batch come back together, right after its answers.
 * An instance that takes the first of them alone runs a batch of one while all the others wait: batches of 1 and 7 in
 * turn, where all 8 fit. So an idle instance waits for them, but never longer than a quarter of what a batch takes, only
 * while some of them are still missing, and only where most of them did come in time of late. Clients that
 * think before they ask again, and those that do not wait for answers, are not waited for.
 */
export interface ReturningClients {
  /** A batch of so many requests, which ran for so long, has been answered. */
  answered(requests: number, runUs: number, nowUs: number): void;
  arrived(nowUs: number): void;
  /**
   * Until when the batch that could go gains by waiting for those who are expected; undefined where it is to go.
   * Others may be answered meanwhile: it waits for them no longer than it was to.
   */
  holdUntilUs(nowUs: number): number | undefined;
  /** That batch was sent, or nobody is left in it: the next one may be held anew. */
  batchGone(): void;
}

export function createReturningClients(): ReturningClients {
  /** In the order of their beginnings. */
  let open: Window[] = [];
  let share = 0;
  /** When the batch that is held goes at the latest, infinite where none is. */
  let heldUntilUs = Number.POSITIVE_INFINITY;

  const count = ({ came, expected }: Window) => {
    share += (came / expected - share) * WEIGHT;
  };

  const close = (nowUs: number) => {
    if (open.length === 0) return;
    for (const window of open) if (nowUs >= window.endUs) count(window);
    open = open.filter(({ endUs }) => nowUs < endUs);
  };

  return {
    answered(requests, runUs, nowUs) {
      close(nowUs);
      const holdUs = Math.min(HOLD_US_MAX, runUs * HOLD_SHARE);
      if (requests > 0 && holdUs >= HOLD_US_MIN) open.push({ endUs: nowUs + holdUs, expected: requests, came: 0 });
    },
    arrived(nowUs) {
      close(nowUs);
      const [first] = open;
      if (first === undefined) return;
      first.came++;
      if (first.came < first.expected) return;
      count(first);
      open.shift();
    },
    holdUntilUs(nowUs) {
      close(nowUs);
      if (share < RETURNING_MIN || open.length === 0 || nowUs >= heldUntilUs) return undefined;
      heldUntilUs = open.reduce((least, { endUs }) => Math.min(least, endUs), heldUntilUs);
      return heldUntilUs;
    },
    batchGone() {
      heldUntilUs = Number.POSITIVE_INFINITY;
    },
  };
}
