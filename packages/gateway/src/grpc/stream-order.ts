/**
 * When answers of one gRPC stream are written, and when another request is read: the rule, without effects
 * (stream_infer_handler.cc; decoupled_models.md).
 *
 * A request is *in flight* from `begin` until its last answer is let go. One of a model that gives one answer has its
 * *turn*: that answer is let go once all such requests before it have theirs, so a slow one *holds* the later ones.
 * Answers of a decoupled model are let go as they come, whatever else is in flight.
 */
export interface StreamOrderLimits {
  /** Requests of one stream in flight. */
  readonly grpc_stream_requests_max: number;
  /** Bytes of those requests and of answers that are held; the request that passes it is still taken. */
  readonly grpc_stream_bytes_max: number;
}

/** `in-turn`: the model gives one answer. `as-produced`: it is decoupled. */
export type AnswerOrder = 'in-turn' | 'as-produced';

export interface StreamOrder<Answer> {
  /** Of requests in flight and of answers that are held. */
  readonly bytes: number;
  /** True where no further request is to be read. */
  readonly full: boolean;
  /** True where nothing is in flight. */
  readonly idle: boolean;
  /** A request of so many bytes was read; its number. */
  begin(order: AnswerOrder, bytes: number): number;
  /** An answer came; what is let go by that, in the order in which to write it. `last`: the request has no other. */
  answer(request: number, answer: Answer, bytes: number, last: boolean): readonly Answer[];
  /** The request ends without another answer; what is let go by that. */
  end(request: number): readonly Answer[];
}

interface InFlight<Answer> {
  readonly order: AnswerOrder;
  readonly bytes: number;
  /** Answers that wait for their request's turn; at most one, as a request in turn has no more. */
  readonly held: Answer[];
  heldBytes: number;
  over: boolean;
}

export function createStreamOrder<Answer>(limits: StreamOrderLimits): StreamOrder<Answer> {
  /** All in flight. */
  const requests = new Map<number, InFlight<Answer>>();
  /** Those that have turns, in the order in which they were read. */
  const turns = new Map<number, InFlight<Answer>>();
  let next = 0;
  let bytes = 0;

  const forget = (request: number, { bytes: own, heldBytes }: InFlight<Answer>) => {
    requests.delete(request);
    turns.delete(request);
    bytes -= own + heldBytes;
  };

  /** Everything up to the first request that still has no answer. */
  const nextTurns = (): readonly Answer[] => {
    const free: Answer[] = [];
    for (const [request, inFlight] of turns) {
      if (!inFlight.over) break;
      free.push(...inFlight.held);
      forget(request, inFlight);
    }
    return free;
  };

  const end = (request: number, inFlight: InFlight<Answer>): readonly Answer[] => {
    inFlight.over = true;
    if (inFlight.order === 'in-turn') return nextTurns();
    forget(request, inFlight);
    return [];
  };

  return {
    get bytes() {
      return bytes;
    },
    get full() {
      return requests.size >= limits.grpc_stream_requests_max || bytes >= limits.grpc_stream_bytes_max;
    },
    get idle() {
      return requests.size === 0;
    },
    begin(order, own) {
      const request = next++;
      const inFlight: InFlight<Answer> = { order, bytes: own, held: [], heldBytes: 0, over: false };
      requests.set(request, inFlight);
      if (order === 'in-turn') turns.set(request, inFlight);
      bytes += own;
      return request;
    },
    answer(request, answer, size, last) {
      const inFlight = requests.get(request);
      if (inFlight === undefined || inFlight.over) return [];
      if (inFlight.order === 'as-produced') {
        if (last) end(request, inFlight);
        return [answer];
      }
      inFlight.held.push(answer);
      inFlight.heldBytes += size;
      bytes += size;
      return last ? end(request, inFlight) : [];
    },
    end(request) {
      const inFlight = requests.get(request);
      return inFlight === undefined || inFlight.over ? [] : end(request, inFlight);
    },
  };
}
