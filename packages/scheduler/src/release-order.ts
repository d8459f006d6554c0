/** An answer to a request, or a part of one, as the rule sees it. */
export interface OrderedAnswer {
  readonly id: string;
  /** Names the run that gave it. */
  readonly execution: string;
  /** From 0 within a run. */
  readonly chunk: number;
  readonly last: boolean;
  readonly bytes: number;
}

/**
 * In which order the answers of one model version may go (preserve_ordering): that in which their
 * requests were first sent out in batches, over all instances (dynamic_batch_scheduler.cc).
 *
 * A request has a *place* from the first time that it is sent out. Its place is *live* until its last
 * answer has come, or it is known that none will; what came for it is *held* until no place before it
 * is live. So one slow request holds up all behind it. Answers of the first live place go at once, one
 * by one, which groups those of streams by request. A request whose batch is lost keeps its place
 * while it waits to run again.
 *
 * Each step returns the answers that may go now, in their order.
 */
export interface ReleaseOrder<A extends OrderedAnswer> {
  /** The request goes out in a batch: a place at the end, unless it has one. */
  sent(id: string): void;
  /** Its batch was lost: it waits to be sent again. */
  waitsAgain(id: string): void;
  answered(answer: A): readonly A[];
  /** No more answers come. Parts of an answer without its end are dropped unless they are on their way: nobody can use them. */
  ended(id: string): readonly A[];
  /** Nobody wants its answers: none is held any more, and none is waited for. */
  dropped(id: string): readonly A[];
  /** Whether answers to it are to wait for their turn: its place is live, or its whole answer is held. */
  has(id: string): boolean;
  /** Its whole answer is held. */
  keeps(id: string): boolean;
  /** Whether its answers may go as they come. */
  isFirst(id: string): boolean;
  readonly answersHeld: number;
  readonly bytesHeld: number;
  /** Requests with a live place that wait to be sent again. */
  readonly waitingAgain: number;
  clear(): void;
}

interface Place<A> {
  readonly id: string;
  held: A[];
  live: boolean;
  /** In a batch. */
  out: boolean;
  next: Place<A> | undefined;
}

/** `discarded` is told of each answer that will not go. */
export function createReleaseOrder<A extends OrderedAnswer>(
  discarded: (answer: A) => void = () => {},
): ReleaseOrder<A> {
  // A list beside the map, which is not asked for its oldest key: it would walk over the holes of those deleted.
  const places = new Map<string, Place<A>>();
  let first: Place<A> | undefined;
  let last: Place<A> | undefined;
  let answersHeld = 0;
  let bytesHeld = 0;
  let waitingAgain = 0;

  const live = (id: string) => {
    const place = places.get(id);
    return place?.live === true ? place : undefined;
  };

  const empty = (place: Place<A>): A[] => {
    const { held } = place;
    if (held.length === 0) return held;
    place.held = [];
    answersHeld -= held.length;
    for (const { bytes } of held) bytesHeld -= bytes;
    return held;
  };

  const discard = (place: Place<A>) => {
    for (const answer of empty(place)) discarded(answer);
  };

  const end = (place: Place<A>) => {
    if (!place.out) waitingAgain--;
    place.live = false;
    place.out = true;
  };

  /** What the places at the front have, up to the first live one. */
  const release = (): readonly A[] => {
    const released: A[] = [];
    while (first !== undefined) {
      for (const answer of empty(first)) released.push(answer);
      if (first.live) break;
      // Another place may have its id: of a request that came again after it had ended without an answer.
      if (places.get(first.id) === first) places.delete(first.id);
      first = first.next;
    }
    if (first === undefined) last = undefined;
    return released;
  };

  /** Whether the answer goes on with what is held; one that begins anew takes the place of an earlier run's. */
  const joins = (place: Place<A>, { execution, chunk }: A): boolean => {
    const [earlier] = place.held;
    if (earlier === undefined || earlier.execution === execution) return true;
    if (chunk !== 0) return false;
    discard(place);
    return true;
  };

  const append = (id: string) => {
    const place: Place<A> = { id, held: [], live: true, out: true, next: undefined };
    if (last === undefined) first = place;
    else last.next = place;
    last = place;
    places.set(id, place);
  };

  const isFirst = (id: string) => first !== undefined && places.get(id) === first;
  const keeps = (id: string) => {
    const place = places.get(id);
    return place?.live === false && place.held.length > 0;
  };

  return {
    sent(id) {
      const place = live(id);
      if (place === undefined) {
        if (!keeps(id)) append(id);
        return;
      }
      if (!place.out) waitingAgain--;
      place.out = true;
    },
    waitsAgain(id) {
      const place = live(id);
      if (place === undefined || !place.out) return;
      place.out = false;
      waitingAgain++;
    },
    answered(answer) {
      const place = live(answer.id);
      if (place === undefined || !joins(place, answer)) {
        discarded(answer);
        return [];
      }
      place.held.push(answer);
      answersHeld++;
      bytesHeld += answer.bytes;
      if (answer.last) end(place);
      return place === first ? release() : [];
    },
    ended(id) {
      const place = live(id);
      if (place === undefined) return [];
      discard(place);
      end(place);
      return place === first ? release() : [];
    },
    dropped(id) {
      const place = places.get(id);
      if (place === undefined) return [];
      discard(place);
      if (place.live) end(place);
      return place === first ? release() : [];
    },
    has: (id) => live(id) !== undefined || keeps(id),
    keeps,
    isFirst,
    get answersHeld() {
      return answersHeld;
    },
    get bytesHeld() {
      return bytesHeld;
    },
    get waitingAgain() {
      return waitingAgain;
    },
    clear() {
      for (let place = first; place !== undefined; place = place.next) discard(place);
      places.clear();
      first = undefined;
      last = undefined;
      waitingAgain = 0;
    },
  };
}
