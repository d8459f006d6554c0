/**
 * The steps of one correlation id at one gateway (docs/protocol.md R12, R15–R17, R19, R22): the rule, without effects.
 *
 * A step is *unfinished* from `joinChain` until `leaveChain`, in the order of g. It is *held* while an earlier one of its
 * session is unfinished: its answer is not handed out before that one's. A session that a gateway began, or met, is
 * *named* by later steps until it is *over* here: ended or begun anew by a step of this gateway, or closed by a step
 * that failed. One that is over is remembered, since its owner may not know of it yet, and no step may go on with it.
 *
 * Numbered steps (`nereid_step`) are found by their correlation id and keep their order by themselves: one that fails
 * ends nothing.
 */
import { type ErrorInfo, senderOf, sequenceLost, sequenceNeedsStart } from '@nereid/protocol';

/** Sessions remembered of one correlation id; a forgotten one is taken for a live one if its owner still has it. */
const OVER_MAX = 4;

interface OverSession {
  readonly session: string;
  /** Not by an END: what its last steps did is not known. */
  readonly lost: boolean;
}

export interface Chain<S extends ChainedStep = ChainedStep> {
  readonly model: string;
  readonly correlationId: bigint | string;
  /** What the next step names; null where not known. */
  session: string | null;
  /** Newest last. */
  over: readonly OverSession[];
  /** A step failed before its session was known: the next one met is over. */
  nextIsOver: boolean;
  /** In the order of g. */
  readonly unfinished: S[];
}

/** What a step's request says of it. */
export interface StepRequest {
  readonly id: string;
  readonly g: number;
  readonly start: boolean;
  readonly end: boolean;
  /** `nereid_step`, -1 for none. */
  readonly number: number;
}

/** A step at its gateway. */
export interface ChainedStep extends StepRequest {
  /** The session that it names. */
  session: string | null;
  /** How often it was sent under that name. */
  sends: number;
}

export function newChain<S extends ChainedStep>(model: string, correlationId: bigint | string): Chain<S> {
  return { model, correlationId, session: null, over: [], nextIsOver: false, unfinished: [] };
}

/** Whether nothing is known of that id that another gateway would not know. */
export function isBlank(chain: Chain): boolean {
  return chain.unfinished.length === 0 && chain.session === null && chain.over.length === 0 && !chain.nextIsOver;
}

/** Puts a step at the end; what session it names: a START its own, which later ones name until one is the END. */
export function joinChain<S extends ChainedStep>(chain: Chain<S>, step: S): void {
  if (step.start) {
    // Of a numbered START this may be the same session, begun before.
    if (chain.session !== null && step.number < 0) setOver(chain, chain.session, true);
    chain.session = step.id;
    chain.nextIsOver = false;
  }
  step.session = chain.session;
  if (step.end && step.session !== null) {
    setOver(chain, step.session, false);
    chain.session = null;
  }
  chain.unfinished.push(step);
}

/** g of the nearest earlier unfinished step, else 0 (R16). */
export function stepBefore(chain: Chain, step: ChainedStep): number {
  return chain.unfinished[placeOf(chain, step) - 1]?.g ?? 0;
}

/** Whether it is one of the chain's still. */
export function isUnfinished(chain: Chain, step: ChainedStep): boolean {
  return chain.unfinished[placeOf(chain, step)] === step;
}

/** Where it is, or would be: one client may have tens of thousands of them, so they are not looked through one by one. */
function placeOf({ unfinished }: Chain, { g }: ChainedStep): number {
  let low = 0;
  let high = unfinished.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((unfinished[middle]?.g ?? g) < g) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether an earlier step of its session has no outcome yet (R17). */
export function isHeld(chain: Chain, step: ChainedStep): boolean {
  for (const other of chain.unfinished) {
    if (other === step) return false;
    if (sameSession(other, step)) return true;
  }
  return false;
}

/** What becomes of the others once a step has its outcome. */
export interface Aftermath<S extends ChainedStep> {
  /** They fail, since their session is closed (R19); they are unfinished no more. */
  readonly failed: readonly S[];
  /** Its session's next one, whose answers may be handed out now. */
  readonly released: S | undefined;
  /** That one is sent again, since what it waited for at its owner will not come. Those behind it wait for it. */
  readonly again: boolean;
}

/** `done`: it took effect, or nothing came of it that another could miss. `closed`: it failed, or nobody knows. */
export type StepEnd = 'done' | 'closed';

export function leaveChain<S extends ChainedStep>(chain: Chain<S>, step: S, end: StepEnd): Aftermath<S> {
  const { unfinished } = chain;
  const at = placeOf(chain, step);
  unfinished.splice(at, 1);
  if (end === 'closed' && step.number < 0) {
    closeSession(chain, step.session);
    const failed: S[] = [];
    for (const other of unfinished.splice(at)) (sameSession(other, step) ? failed : unfinished).push(other);
    return { failed, released: undefined, again: false };
  }
  if (end === 'done' && step.end)
    chain.over = chain.over.filter(({ session, lost }) => lost || session !== step.session);
  // A START that was taken leaves no older session at its owner.
  if (end === 'done' && step.start) chain.over = chain.over.filter(({ session, lost }) => !lost || session === step.id);
  const released = unfinished.find((other, index) => index >= at && sameSession(other, step));
  return { failed: [], released, again: end === 'closed' };
}

export type MovedVerdict<S extends ChainedStep> =
  /** Of an earlier name of it. */
  | { readonly type: 'ignore' }
  /** These are sent again under the session that they name now. */
  | { readonly type: 'adopt'; readonly steps: readonly S[] }
  /** It fails. `close`: a session that its owner should have closed long ago. */
  | { readonly type: 'fail'; readonly error: ErrorInfo; readonly close: string | null };

/**
 * The owner has no session `sent`, but `current` under that id (R12). A step goes on with that one only if no copy of it
 * can have taken effect before: it was sent once under the refused name (R15), or named none.
 */
export function movedStep<S extends ChainedStep>(
  chain: Chain<S>,
  step: S,
  sent: string | null,
  current: string | null,
): MovedVerdict<S> {
  if (step.session !== sent || (sent !== null && sent === current)) return { type: 'ignore' };
  const { model, correlationId } = chain;
  const lost = { type: 'fail', error: sequenceLost(model, correlationId), close: null } as const;
  const over = chain.over.find(({ session }) => session === (current ?? sent));
  if (current === null) {
    // Nobody here ended it, so it was lost, idle for too long, or ended through another gateway.
    const known = sent !== null || step.number > 0 || chain.over.some((each) => each.lost);
    return known && over?.lost !== false ? lost : { ...lost, error: sequenceNeedsStart(model, correlationId) };
  }
  if (step.start || isLater(current, step)) return lost;
  if (over?.lost === false) return { ...lost, error: sequenceNeedsStart(model, correlationId) };
  if (over !== undefined) return { ...lost, close: current };
  if (step.number < 0 && sent === null && chain.nextIsOver) {
    chain.nextIsOver = false;
    setOver(chain, current, true);
    return { ...lost, close: current };
  }
  if (step.number < 0 && sent !== null && step.sends > 1) return lost;
  return { type: 'adopt', steps: adopt(chain, step, sent, current) };
}

/** That one and all later ones of the same name: none of them can have taken effect without it (R16). */
function adopt<S extends ChainedStep>(chain: Chain<S>, step: S, sent: string | null, current: string): readonly S[] {
  const steps = chain.unfinished.slice(placeOf(chain, step)).filter(({ session }) => session === sent);
  const ending = steps.some(({ end }) => end);
  for (const each of steps) {
    each.session = current;
    each.sends = 0;
  }
  chain.over = chain.over.filter(({ session }) => session !== sent);
  if (ending) setOver(chain, current, false);
  else if (chain.session === sent) chain.session = current;
  return steps;
}

function closeSession(chain: Chain, session: string | null): void {
  if (session === null) {
    chain.nextIsOver = true;
    return;
  }
  if (chain.session === session) chain.session = null;
  setOver(chain, session, true);
}

function setOver(chain: Chain, session: string, lost: boolean): void {
  chain.over = [...chain.over.filter((other) => other.session !== session), { session, lost }].slice(-OVER_MAX);
}

function sameSession(a: ChainedStep, b: ChainedStep): boolean {
  return a.session === b.session || (a.number >= 0 && b.number >= 0);
}

/** Whether a session began here behind the step: its id is that of its START. */
function isLater(session: string, { id, g }: ChainedStep): boolean {
  return senderOf(session) === senderOf(id) && Number(session.slice(session.lastIndexOf(':') + 1)) > g;
}
