export interface PrivateRedis {
  /** `unix://…`, as --redis-url takes it. */
  readonly url: string;
  /** For ioredis. */
  readonly connection: { readonly path: string };
  /** As --job-prefix takes it. */
  readonly jobPrefix: string;
  /** Sends one command; its answer as RESP2 has it (text, number, null, lists). */
  ask(...command: readonly string[]): Promise<unknown>;
  /** Ends it by the signal, SIGTERM where none is given, and starts it after that time again on the same socket and folder; the flags say what it keeps. */
  restart(how?: { readonly signal?: NodeJS.Signals; readonly awayMs?: number }): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

export declare function hasRedis(): boolean;
export declare function startPrivateRedis(flags?: readonly string[]): Promise<PrivateRedis>;
