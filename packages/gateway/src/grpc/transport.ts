/**
 * What a gRPC transport gives to the calls and takes from them. Nothing behind this file knows what
 * carries the frames, so that another transport can take its place.
 */

import type { LeaveSignal } from '@nereid/caller';
import type { ErrorInfo } from '@nereid/protocol';
import type { Result } from '../result.ts';

/** What came with a call. Names are in lower case; several values of one name are one text with `, ` between. */
export interface CallMetadata {
  /** undefined where there is none of that name. */
  get(name: string): string | undefined;
  /**
   * What the client itself set, names and values in turn, each value's characters its bytes: without
   * gRPC's own entries and binary ones (`…-bin`).
   */
  headers(): readonly string[];
}

export interface CallInfo {
  readonly metadata: CallMetadata;
  /** Aborted once nobody reads the answer: the client cancelled, left, or its deadline passed. */
  readonly signal: LeaveSignal;
  /** Milliseconds until the call's deadline, at least 1; 0 where it has none. */
  msLeft(): number;
  /** The token under which the cluster knows the request, for the answer's metadata. */
  requestId(id: string): void;
}

/** One message as it travels; in parts where joining them would copy much. */
export type MessageBytes = Uint8Array | readonly Uint8Array[];

interface CallNames {
  /** `/package.Service/Method`. */
  readonly path: string;
  /** True where `--grpc-infer-response-compression-level` applies. */
  readonly compressed: boolean;
}

/** One request, one answer. */
export interface UnaryCall extends CallNames {
  readonly kind: 'unary';
  /** Whatever it throws is answered as an error; it is logged unless it is a NereidError. */
  handle(request: Uint8Array, info: CallInfo): Result<MessageBytes> | Promise<Result<MessageBytes>>;
}

/** Any number of messages each way. */
export interface BidiCall extends CallInfo {
  /** What the client sends, read as it is asked for; ends when the client has sent its last, or left. One reader. */
  readonly messages: AsyncIterable<Uint8Array>;
  /** Aborted once the server takes nothing new: the call is to end after what it has taken. */
  readonly stopping: AbortSignal;
  /**
   * Sends a message. Gives a promise where the client does not keep up: it resolves when more may be
   * sent, also when the client has left (see `signal`). What is written after the end is dropped.
   */
  write(message: MessageBytes): Promise<void> | undefined;
  /** What was read and is not done with counts as so many bytes of the gateway's, all together, from now on. */
  holds(bytes: number): void;
  /** Ends the call with OK, after what was written. The first of `end` and `fail` counts. */
  end(): void;
  /** Ends the call with the error's status, its text and the trailer `nereid-error`. */
  fail(error: ErrorInfo): void;
}

export interface StreamCall extends CallNames {
  readonly kind: 'stream';
  /** Ends the call by itself, or by returning (OK) or throwing (as a unary one). */
  handle(call: BidiCall): Promise<void>;
}

export type GrpcCall = UnaryCall | StreamCall;

/** A server over one listener. */
export interface GrpcTransport {
  /** `host:port`, as clients take it. Throws UNAVAILABLE, with the fix in its text, where the address cannot be had. */
  listen(): Promise<{ readonly url: string }>;
  /** From now on new calls are refused as `GRPC server is shutting down…`; running ones go on. Idempotent. */
  drain(): void;
  /** Drains, lets running calls finish within the deadline, then cuts what is left, which cancels it. */
  close(deadlineMs: number): Promise<void>;
}
