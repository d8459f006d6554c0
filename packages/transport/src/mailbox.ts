import type { BlobRef, CarriedTensor, Message, ProcessId, Tensor } from '@nereid/protocol';

/** Why a message was not taken: the mailbox is at its limit, or there is none of that name. */
export type RefusalReason = 'full' | 'gone';

export interface MailboxLimits {
  readonly messages_max: number;
  readonly bytes_max: number;
}

/**
 * The one mailbox of a process; mailbox-contract.ts is the suite that every transport passes.
 * Guarantees: messages of one sender to one receiver arrive in order and at most once; the
 * receiver is never called inside `send` (no reentrance); several messages may arrive in one call.
 * Not guaranteed: arrival. Whoever must know resends.
 */
export interface Mailbox {
  readonly id: ProcessId;
  /** Sends without waiting. `refused` is called, later, at most once, if the message was not taken. */
  send(to: ProcessId, message: Message, refused?: (reason: RefusalReason) => void): void;
  /** Stops receiving; what waits unread is dropped. Idempotent. */
  close(): Promise<void>;
}

/**
 * What a transport is told of large tensors, which it passes beside its messages (docs/protocol.md R29). It knows
 * them by their objects: whoever sends a request again sends the same ones.
 */
export interface LargeTensors {
  /** What nobody renews is gone after so long. */
  readonly lifetimeMs: number;
  /** Nobody will read them any more: their request has its final outcome. */
  release(tensors: readonly CarriedTensor[]): void;
  /** Somebody did not find them: the next send puts them down anew, where every process looks. */
  rewrite(tensors: readonly CarriedTensor[]): void;
  /** Those of an answer that another process gave and that is held here before it is passed on: they last until `letGo`. */
  keep(tensors: readonly CarriedTensor[]): void;
  letGo(tensors: readonly CarriedTensor[]): void;
  /** As `letGo` of what nobody will read: it is deleted at once. */
  discard(tensors: readonly CarriedTensor[]): void;
  /**
   * Puts one down for the process `message` goes to, which keeps or discards it, and for every worker; undefined where
   * there is no room. `anew`: where every process looks, since somebody did not find it.
   */
  put(tensor: Tensor, to: ProcessId, message: Message, anew: boolean): Promise<BlobRef | undefined>;
}

export interface MailboxOptions {
  /** Answers come with their large tensors as BlobTensors, whose blobs nobody deletes before the reader does. */
  readonly carries?: boolean;
}

export interface Transport {
  /** Opens the mailbox of a process; its id must be new. */
  open(id: ProcessId, receive: (messages: readonly Message[]) => void, options?: MailboxOptions): Mailbox;
  /**
   * Calls back when messages to or from this process may have been lost with a connection or with a
   * Redis that began anew, once it works again. Never on the local lane. Returns how to stop.
   */
  onInterruption(listener: () => void): () => void;
  /** Absent where every message is passed by reference. */
  readonly largeTensors?: LargeTensors;
  close(): Promise<void>;
}
