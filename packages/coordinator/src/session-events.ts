/** What the desk of a model version is told, and what it decides. */
import type { EntryResult, ErrorInfo, FailureReason, ProcessId } from '@nereid/protocol';
import type { SequenceStep, SessionClose } from '@nereid/scheduler';
import type { Place, StepArrival } from './session-book.ts';
import type { DescribedSessions } from './session-described.ts';

/** A step that is held for so long does not get what it waits for: gateways send again what is lost within 4 s. */
export const STEP_HELD_US_MAX = 10_000_000;

export type DeskEvent =
  /** A step, for the first time or again. */
  | { readonly type: 'arrived'; readonly step: StepArrival }
  /** It is in a batch to that slot. */
  | { readonly type: 'sent'; readonly id: string; readonly place: Place; readonly batch: number }
  /** Its batch is over. */
  | { readonly type: 'over'; readonly id: string; readonly result: EntryResult }
  /** Its batch is lost, and its worker is not. */
  | { readonly type: 'returned'; readonly id: string }
  /** The owner has answered it with an error. */
  | { readonly type: 'failed'; readonly id: string; readonly error: ErrorInfo }
  /** Somebody ends the session, if it lives; its steps get the error. */
  | { readonly type: 'evicted'; readonly session: string; readonly error: ErrorInfo }
  /** The scheduler has ended the session. */
  | { readonly type: 'closed'; readonly session: string; readonly why: SessionClose }
  | ({ readonly type: 'described' } & DescribedSessions)
  | { readonly type: 'gone'; readonly worker: ProcessId }
  /** Looks after steps that are held for too long. */
  | { readonly type: 'time' };

export type DeskDecision =
  /** It arrives at the scheduler. */
  | { readonly type: 'queue'; readonly id: string; readonly sequence: SequenceStep }
  /** It comes back to the scheduler. */
  | { readonly type: 'again'; readonly id: string }
  /** That worker may have its answer, of a session that is over. */
  | {
      readonly type: 'replay';
      readonly id: string;
      readonly session: string;
      readonly worker: ProcessId;
      readonly instance: number;
    }
  | { readonly type: 'moved'; readonly id: string; readonly sent: string | null; readonly current: string | null }
  | { readonly type: 'fail'; readonly id: string; readonly error: ErrorInfo; readonly reason: FailureReason }
  | { readonly type: 'bound'; readonly session: string; readonly place: Place }
  | { readonly type: 'step-over'; readonly id: string; readonly ended: boolean }
  | { readonly type: 'session-held'; readonly session: string; readonly held: boolean }
  | { readonly type: 'session-over'; readonly session: string }
  | { readonly type: 'free'; readonly session: string; readonly worker: ProcessId };

/** What a step of the desk is taken in. */
export interface DeskWorld {
  readonly nowUs: number;
  /** Number of the owner's epoch. */
  readonly epoch: number;
  /** Every worker that was asked has said what it holds, or is gone (docs/protocol.md R9). */
  readonly described: boolean;
}
