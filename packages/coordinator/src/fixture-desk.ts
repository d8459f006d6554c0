/** For tests: a desk whose decisions are told in a few words. */
import { CANCELLED, type EndedSession, type EntryResult, type ErrorInfo, type SlotDescription } from '@nereid/protocol';
import type { SessionClose } from '@nereid/scheduler';
import type { StepArrival } from './session-book.ts';
import { createSessionDesk } from './session-desk.ts';
import type { DeskDecision, DeskEvent } from './session-events.ts';

export type DeskPlay = ReturnType<typeof deskPlay>;

/** Ids are `{gateway}:{g}`. All is of correlation id 5 unless it says otherwise. */
export function deskPlay() {
  const desk = createSessionDesk('m');
  const world = { nowUs: 0, epoch: 1, described: true };
  let batch = 0;
  const tell = (event: DeskEvent): string[] => desk.step(event, { ...world }).map(inWords);
  const places = new Map<string, { worker: string; instance: number; slot: number }>();

  return {
    desk,
    world,
    arrive: (id: string, given: Partial<StepArrival> = {}) => tell({ type: 'arrived', step: arrival(id, given) }),
    /** The START of a session, of which it is the name. */
    start: (id: string, given: Partial<StepArrival> = {}) =>
      tell({ type: 'arrived', step: arrival(id, { start: true, named: id, ...given }) }),
    /** The scheduler sends it to that worker's slot, 0 at first or where its session was. */
    send(id: string, worker = 'w', slot = 0) {
      places.set(id, { worker, instance: 0, slot });
      return tell({ type: 'sent', id, place: { worker, instance: 0, slot }, batch: ++batch });
    },
    over: (id: string, result: EntryResult = 'ok') => tell({ type: 'over', id, result }),
    returned: (id: string) => tell({ type: 'returned', id }),
    failed: (id: string, error: ErrorInfo = CANCELLED) => tell({ type: 'failed', id, error }),
    closed: (session: string, why: SessionClose) => tell({ type: 'closed', session, why }),
    evict: (session: string) => tell({ type: 'evicted', session, error: CANCELLED }),
    gone: (worker: string) => tell({ type: 'gone', worker }),
    /** What a worker says that it has; `sentUpTo` where it was asked. */
    described(
      worker: string,
      slots: readonly SlotDescription[],
      { ended = [], sentUpTo, running = [] }: { ended?: EndedSession[]; sentUpTo?: number; running?: string[] } = {},
    ) {
      return tell({ type: 'described', worker, slots, ended, running: new Set(running), sentUpTo });
    },
    pass(us: number) {
      world.nowUs += us;
      return tell({ type: 'time' });
    },
    /** The last batch that was sent. */
    get batch() {
      return batch;
    },
  };
}

export function arrival(id: string, given: Partial<StepArrival> = {}): StepArrival {
  const at = id.lastIndexOf(':');
  return {
    id,
    sender: id.slice(0, at),
    g: Number(id.slice(at + 1)),
    low: 0,
    prev: 0,
    named: null,
    number: -1,
    correlationId: 5n,
    start: false,
    end: false,
    sends: 1,
    own: false,
    ...given,
  };
}

/** A slot of instance 0, bound by an earlier owner unless it says otherwise. */
export function slotOf(session: string, given: Partial<SlotDescription> = {}): SlotDescription {
  return {
    instance: 0,
    slot: 0,
    session,
    correlationId: 5n,
    bind: { epoch: 0, n: 1 },
    marks: [],
    steps: 0,
    ...given,
  };
}

function inWords(decision: DeskDecision): string {
  switch (decision.type) {
    case 'queue': {
      const { session, start, end, replaces } = decision.sequence;
      const flags = `${start ? ' start' : ''}${end ? ' end' : ''}`;
      return `queue ${decision.id} of ${session}${flags}${replaces === undefined ? '' : ` replaces ${replaces}`}`;
    }
    case 'again':
      return `again ${decision.id}`;
    case 'replay':
      return `replay ${decision.id} of ${decision.session} at ${decision.worker}/${decision.instance}`;
    case 'moved':
      return `moved ${decision.id} to ${decision.current}`;
    case 'fail':
      return `fail ${decision.id}: ${decision.error.reason ?? decision.error.message}`;
    case 'bound': {
      const { worker, instance, slot } = decision.place;
      return `bound ${decision.session} at ${worker}/${instance}/${slot}`;
    }
    case 'step-over':
      return `over ${decision.id}${decision.ended ? ' ended' : ''}`;
    case 'session-held':
      return `${decision.held ? 'held' : 'not held'} ${decision.session}`;
    case 'session-over':
      return `session-over ${decision.session}`;
    case 'free':
      return `free ${decision.session} at ${decision.worker}`;
  }
}
