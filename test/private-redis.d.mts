export interface PrivateRedis {
  /** `unix://…`, as --redis-url takes it. */
  readonly url: string;
  /** Sends one command; its answer as RESP2 has it (text, number, null, lists). */
  ask(...command: readonly string[]): Promise<unknown>;
  /** Ends it by SIGTERM and starts it again on the same socket and folder; the flags say what it keeps. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

export declare function hasRedis(): boolean;
export declare function startPrivateRedis(flags?: readonly string[]): Promise<PrivateRedis>;
