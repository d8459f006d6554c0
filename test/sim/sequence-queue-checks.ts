/**
 * What must hold of the rule for sequences, told of what goes in and comes out. A second, simple account of the
 * sessions: where each is, which is learnt from the rule's own list, what waits and what is out.
 */
import { SEQUENCE_TIMEOUT } from '@nereid/protocol';
import type { Decision, QueuedRequest, SessionClose, WaitingSession } from '@nereid/scheduler';
import type { SequenceRules } from './sequence-queue-rules.ts';

export type SequenceCheck =
  /** Steps of a session, and of those that it ended, in order. */
  | 'order'
  /** One step of a session out at a time. */
  | 'one out'
  /** A slot has one session; a session that has begun stays in its slot. */
  | 'slot'
  /** The lowest slot number first, then the instance with the fewest. */
  | 'spread'
  /** Those that wait for a slot get it by their STARTs, and as soon as there is one. */
  | 'backlog'
  /** Rows, shapes, free instances. */
  | 'batch'
  /** What may go is not held back, nor sent before it may. */
  | 'delay'
  /** What may go goes before too many others do. */
  | 'starved'
  | 'idle'
  | 'timeout'
  /** No session begins where none may. */
  | 'draining'
  /** What lives is known, what is over is not. */
  | 'left';

type Place = NonNullable<WaitingSession['place']>;

export interface Told {
  readonly id: string;
  readonly startedUs: number;
  /** By which it waits for a slot: its own START's time, or that of one whose place it has. */
  queuedUs: number;
  /** Ids of steps that wait, the first first. */
  waiting: QueuedRequest[];
  out: string | undefined;
  begun: boolean;
  place: Place | undefined;
  /** It waits for this one's steps. */
  former: Told | undefined;
  heir: Told | undefined;
  /** The slot of the one before it, which is its own now. */
  inherits: Place | undefined;
  activeUs: number;
  /** Since when nothing of it waits or is out. */
  quietUs: number;
  /** While it has no slot, infinite for never. */
  expiresUs: number;
  /** Since when its first step may go, and how many batches went without it since. */
  ready: { readonly sinceUs: number; passed: number } | undefined;
}

interface ToldInstance {
  open: boolean;
  free: boolean;
  freeUs: number;
}

const ROUNDING_US = 0.5;

export interface SequenceChecks {
  readonly sessions: ReadonlyMap<string, Told>;
  arrived(step: QueuedRequest, nowUs: number): void;
  returned(step: QueuedRequest, nowUs: number): void;
  stepOver(session: string, id: string, ended: boolean, nowUs: number): void;
  sessionOver(session: string, nowUs: number): void;
  instance(key: string, is: 'free' | 'lost' | 'draining', nowUs: number): void;
  draining(): void;
  bound(session: string, place: Place, nowUs: number): void;
  /** After each event. */
  stepped(after: SteppedState, nowUs: number): void;
}

export interface SteppedState {
  readonly decisions: readonly Decision[];
  readonly listed: readonly WaitingSession[];
  readonly waiting: number;
  /** The event may have let something go. */
  readonly decides: boolean;
}

interface FirstStep {
  readonly arrivedUs: number;
  readonly sequence: { readonly session: string; readonly replaces?: string | undefined } | undefined;
}

type Fail = (check: SequenceCheck, text: string) => void;

export function createSequenceChecks(rules: SequenceRules, fail: Fail): SequenceChecks {
  const sessions = new Map<string, Told>();
  const instances = new Map<string, ToldInstance>();
  /** What lives after the last event, by instance and slot. */
  let usedBefore = new Map<string, ReadonlySet<number>>();
  let draining = false;

  const end = (session: Told, nowUs: number) => {
    sessions.delete(session.id);
    const { former, heir } = session;
    if (heir !== undefined) {
      heir.former = former;
      heir.inherits = session.place;
      if (former === undefined && session.place === undefined) heir.queuedUs = session.queuedUs;
    }
    if (former !== undefined) former.heir = heir;
    if (former === undefined && heir !== undefined) endQuiet(heir, nowUs);
  };

  /** One that another has ended is over with its steps. */
  const endQuiet = (session: Told, nowUs: number) => {
    if (session.waiting.length > 0 || session.out !== undefined) return;
    session.quietUs = nowUs;
    if (session.heir !== undefined && session.former === undefined) end(session, nowUs);
  };

  const sessionOf = (step: FirstStep, nowUs: number): Told => {
    const id = step.sequence?.session ?? '';
    const known = sessions.get(id);
    if (known !== undefined) return known;
    let former = sessions.get(step.sequence?.replaces ?? '');
    while (former?.heir !== undefined) former = former.heir;
    const made: Told = {
      id,
      startedUs: step.arrivedUs,
      queuedUs: step.arrivedUs,
      waiting: [],
      out: undefined,
      begun: false,
      place: undefined,
      former,
      heir: undefined,
      inherits: undefined,
      activeUs: nowUs,
      quietUs: nowUs,
      expiresUs: Number.POSITIVE_INFINITY,
      ready: undefined,
    };
    sessions.set(id, made);
    if (former !== undefined) former.heir = made;
    return made;
  };

  const chainOf = (session: Told): Told[] => {
    let first = session;
    while (first.former !== undefined) first = first.former;
    const chain: Told[] = [];
    for (let one: Told | undefined = first; one !== undefined; one = one.heir) chain.push(one);
    return chain;
  };

  const readyAt = (instance: string): Told[] =>
    [...sessions.values()].filter(({ place, ready }) => place?.instance === instance && ready !== undefined);

  const checkDelay = (instance: string, batch: readonly QueuedRequest[], nowUs: number) => {
    const ready = readyAt(instance);
    if (draining || rules.delayUs === 0) return;
    if (rules.strategy === 'direct') {
      const oldestUs = Math.min(...ready.map(({ waiting }) => waiting[0]?.arrivedUs ?? nowUs));
      if (ready.length / rules.slots < rules.utilizationMin && nowUs < oldestUs + rules.delayUs - ROUNDING_US) {
        fail('delay', `${ready.length} of ${rules.slots} slots are a batch before the delay`);
      }
      return;
    }
    const oldestUs = Math.min(...ready.map((session) => session.ready?.sinceUs ?? nowUs));
    const shapes = new Set(ready.map(({ waiting }) => waiting[0]?.shapeKey));
    if (batch.length < rules.rows_max && shapes.size === 1 && nowUs < oldestUs + rules.delayUs - ROUNDING_US) {
      fail('delay', `${batch.length} steps are a batch before the delay`);
    }
  };

  const dispatchedStep = (instance: string, step: QueuedRequest, slot: number) => {
    const session = sessions.get(step.sequence?.session ?? '');
    if (session?.waiting[0]?.id !== step.id) {
      fail('order', `${step.id} is sent, not ${session?.waiting[0]?.id}`);
      return;
    }
    if (session.former !== undefined) fail('order', `${step.id} goes before the steps of ${session.former.id}`);
    if (session.out !== undefined) fail('one out', `${step.id} goes beside ${session.out}`);
    const { place } = session;
    if (slot < 0 || slot >= rules.slots) fail('slot', `slot ${slot} of ${rules.slots}`);
    for (const other of sessions.values()) {
      if (other === session || !other.begun) continue;
      if (other.place?.instance === instance && other.place.slot === slot) {
        fail('slot', `${session.id} has the slot of ${other.id}`);
      }
    }
    if (place?.instance !== instance || place.slot !== slot)
      fail('slot', `${session.id} is not at ${instance}@${slot}`);
    if (!session.begun && instances.get(instance)?.open !== true) {
      fail('draining', `${session.id} begins on ${instance}`);
    }
    session.waiting.shift();
    session.out = step.id;
    session.begun = true;
    session.ready = undefined;
  };

  /** As it was told, whatever it is heard to be. */
  const toldOf = ({ id, sequence }: QueuedRequest): QueuedRequest | undefined =>
    sessions.get(sequence?.session ?? '')?.waiting.find((step) => step.id === id);

  const dispatched = ({ instance, batch, slots = [] }: Extract<Decision, { type: 'dispatch' }>, nowUs: number) => {
    const known = instances.get(instance);
    if (known?.free !== true) fail('batch', `${instance} is given a batch and is not free`);
    else known.free = false;
    if (batch.length === 0 || batch.length > rules.rows_max) fail('batch', `${batch.length} steps`);
    if (new Set(batch.map((step) => toldOf(step)?.shapeKey)).size > 1) fail('batch', 'several shapes');
    if (new Set(slots).size !== batch.length) fail('batch', `slots ${slots.join(' ')} for ${batch.length} steps`);
    if (rules.strategy === 'direct' && slots.some((slot, index) => index > 0 && slot < (slots[index - 1] ?? 0))) {
      fail('batch', `slots ${slots.join(' ')} are rows`);
    }
    checkDelay(instance, batch, nowUs);
    for (const [index, step] of batch.entries()) dispatchedStep(instance, step, slots[index] ?? -1);
    for (const { id, ready } of readyAt(instance)) {
      if (ready !== undefined && ++ready.passed > 2 * rules.slots + 4)
        fail('starved', `${id} by ${ready.passed} batches`);
    }
  };

  const closed = (id: string, why: SessionClose, nowUs: number) => {
    const session = sessions.get(id);
    if (session === undefined) {
      fail('left', `${id}, which is over, is closed`);
      return;
    }
    const [left] = session.waiting;
    if (left !== undefined) fail('left', `${left.id} still waits in ${id}, which is closed`);
    if (why === 'idle') checkIdle(session, nowUs);
    if (why === 'timeout') {
      const expiresUs = Math.min(...chainOf(session).map((one) => one.expiresUs), expiredUs);
      if (session.place !== undefined) fail('timeout', `${id} has a slot`);
      if (Math.abs(expiresUs - nowUs) > ROUNDING_US) fail('timeout', `${id} is refused at ${nowUs}, not ${expiresUs}`);
      expiredUs = expiresUs;
    }
    session.waiting = [];
    end(session, nowUs);
  };
  /** Of the place whose sessions are being closed. */
  let expiredUs = Number.POSITIVE_INFINITY;

  const checkIdle = (session: Told, nowUs: number) => {
    const { id, waiting, out, place, heir } = session;
    if (waiting.length > 0 || out !== undefined || heir !== undefined) fail('idle', `${id} is not quiet`);
    if (place === undefined) fail('idle', `${id} has no slot`);
    const dueUs = Math.max(session.activeUs + rules.idleUs, session.quietUs);
    if (Math.abs(nowUs - dueUs) > ROUNDING_US) fail('idle', `${id} is idle at ${nowUs}, not ${dueUs}`);
  };

  const rejected = ({ request, error }: Extract<Decision, { type: 'reject' }>) => {
    const session = sessions.get(request.sequence?.session ?? '');
    if (error !== SEQUENCE_TIMEOUT) {
      fail('left', `${request.id} is refused`);
      return;
    }
    if (session === undefined) fail('left', `${request.id} of no session is refused`);
    else session.waiting = session.waiting.filter(({ id }) => id !== request.id);
  };

  /** Learns where the sessions are now. */
  const learn = (listed: readonly WaitingSession[], nowUs: number): readonly Told[] => {
    const placed: Told[] = [];
    const taken = new Set<string>();
    for (const { session: id, place } of listed) {
      const session = sessions.get(id);
      if (session === undefined) {
        fail('left', `${id} is over and listed`);
        continue;
      }
      if (place !== undefined) {
        const key = `${place.instance}@${place.slot}`;
        if (taken.has(key)) fail('slot', `${key} is given twice`);
        taken.add(key);
      }
      const inherited = isSame(place, session.inherits);
      session.inherits = undefined;
      if (isSame(place, session.place)) continue;
      if (session.begun) fail('slot', `${id} moves to ${place?.instance}@${place?.slot}`);
      session.place = place;
      session.ready = undefined;
      if (place === undefined) continue;
      session.activeUs = nowUs;
      session.expiresUs = Number.POSITIVE_INFINITY;
      for (const one of chainOf(session)) one.expiresUs = Number.POSITIVE_INFINITY;
      if (!inherited) placed.push(session);
    }
    return placed;
  };

  const usedNow = () => {
    const used = new Map<string, Set<number>>([...instances.keys()].map((key) => [key, new Set<number>()]));
    for (const { place } of sessions.values()) if (place !== undefined) used.get(place.instance)?.add(place.slot);
    return used;
  };

  const lowestFree = (...used: readonly (ReadonlySet<number> | undefined)[]): number => {
    let slot = 0;
    while (used.some((one) => one?.has(slot) === true)) slot++;
    return slot < rules.slots ? slot : Number.POSITIVE_INFINITY;
  };

  const checkPlaces = (placed: readonly Told[]) => {
    const used = usedNow();
    const open = [...instances].flatMap(([key, { open }]) => (open ? [key] : []));
    for (const { id, place } of placed) {
      if (place === undefined || usedBefore.get(place.instance)?.has(place.slot) === true) continue;
      for (const key of open) {
        const free = lowestFree(used.get(key), usedBefore.get(key));
        if (free < place.slot) fail('spread', `${id} has ${place.instance}@${place.slot}, and ${key}@${free} is free`);
        const fewer = (used.get(key)?.size ?? 0) < (used.get(place.instance)?.size ?? 0) - 1;
        if (placed.length === 1 && free === place.slot && fewer)
          fail('spread', `${id} is not on ${key}, which has fewer`);
      }
    }
    const waits = [...sessions.values()].filter(({ former, place }) => former === undefined && place === undefined);
    for (const session of waits) {
      const earlier = placed.find(({ queuedUs }) => queuedUs > session.queuedUs);
      if (earlier !== undefined) fail('backlog', `${earlier.id} has a slot before ${session.id}`);
    }
    if (waits.length > 0 && open.some((key) => lowestFree(used.get(key)) < rules.slots)) {
      fail('backlog', `${waits[0]?.id} waits beside a free slot`);
    }
    usedBefore = used;
  };

  const checkTimes = (nowUs: number) => {
    for (const session of sessions.values()) {
      const { id, waiting, out, heir, former, place, activeUs } = session;
      if (
        place === undefined &&
        former === undefined &&
        chainOf(session).some(({ expiresUs }) => nowUs >= expiresUs + ROUNDING_US)
      ) {
        fail('timeout', `${id} still waits`);
      }
      const isQuiet = waiting.length === 0 && out === undefined && heir === undefined;
      if (isQuiet && place !== undefined && nowUs >= activeUs + rules.idleUs + ROUNDING_US) fail('idle', `${id} lives`);
      const { free, freeUs } = instances.get(place?.instance ?? '') ?? { free: false, freeUs: 0 };
      if (!free || session.ready === undefined) continue;
      const sinceUs = rules.strategy === 'direct' ? (waiting[0]?.arrivedUs ?? nowUs) : session.ready.sinceUs;
      const fromUs = rules.delayUs > 0 ? sinceUs : Math.max(sinceUs, freeUs);
      if (nowUs - fromUs > Math.max(rules.delayUs, rules.holdUs) + ROUNDING_US)
        fail('delay', `${id} waits beside ${place?.instance}`);
    }
  };

  const markReady = (nowUs: number) => {
    for (const session of sessions.values()) {
      const may = session.place !== undefined && session.former === undefined && session.out === undefined;
      if (may && session.waiting.length > 0) session.ready ??= { sinceUs: nowUs, passed: 0 };
    }
  };

  const endSome = (decisions: readonly Decision[], nowUs: number) => {
    expiredUs = Number.POSITIVE_INFINITY;
    for (const decision of decisions) {
      if (decision.type === 'reject') rejected(decision);
      else if (decision.type === 'closed') closed(decision.session, decision.why, nowUs);
    }
  };

  return {
    sessions,
    arrived(step, nowUs) {
      const session = sessionOf(step, nowUs);
      session.waiting.push(step);
      session.activeUs = nowUs;
      const [first] = chainOf(session);
      if (step.timeoutUs > 0 && first?.place === undefined) {
        session.expiresUs = Math.min(session.expiresUs, step.arrivedUs + step.timeoutUs);
      }
      if (session.former !== undefined) endQuiet(session.former, nowUs);
      markReady(nowUs);
    },
    returned(step, nowUs) {
      const session = sessionOf(step, nowUs);
      session.out = undefined;
      session.waiting.unshift(step);
      session.ready = undefined;
      if (step.sequence?.start === true) session.begun = false;
      markReady(nowUs);
    },
    stepOver(id, step, ended, nowUs) {
      const session = sessions.get(id);
      if (session?.out !== step) return;
      session.out = undefined;
      if (ended) end(session, nowUs);
      else endQuiet(session, nowUs);
      markReady(nowUs);
    },
    sessionOver(id, nowUs) {
      const session = sessions.get(id);
      if (session !== undefined) end(session, nowUs);
    },
    instance(key, is, nowUs) {
      const known = instances.get(key) ?? { open: true, free: false, freeUs: nowUs };
      instances.set(key, known);
      if (is === 'free') {
        known.free = true;
        known.freeUs = nowUs;
      } else {
        known.open = false;
      }
      if (is === 'lost') instances.delete(key);
    },
    draining() {
      draining = true;
    },
    bound(id, place, nowUs) {
      const session = sessionOf({ sequence: { session: id }, arrivedUs: nowUs }, nowUs);
      session.begun = true;
      session.place = place;
    },
    stepped({ decisions, listed, waiting, decides }, nowUs) {
      endSome(decisions, nowUs);
      const placed = learn(listed, nowUs);
      markReady(nowUs);
      for (const decision of decisions) if (decision.type === 'dispatch') dispatched(decision, nowUs);
      if (listed.length !== sessions.size) fail('left', `${listed.length} sessions are listed of ${sessions.size}`);
      const waits = [...sessions.values()].reduce((sum, session) => sum + session.waiting.length, 0);
      if (waits !== waiting) fail('left', `${waiting} steps wait of ${waits}`);
      checkPlaces(placed);
      for (const session of placed) session.queuedUs = session.startedUs;
      markReady(nowUs);
      if (decides) checkTimes(nowUs);
    },
  };
}

function isSame(one: Place | undefined, other: Place | undefined): boolean {
  return one?.instance === other?.instance && one?.slot === other?.slot;
}
