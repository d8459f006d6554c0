/** A Redis that jobs can be in, of one of several forms. */
export interface FormedRedis {
  /** As --redis-url takes it. */
  readonly url: string;
  /** As `bullmqConnection` takes it. */
  readonly connection: object;
  /** As --job-prefix takes it. */
  readonly jobPrefix: string;
  stop(): Promise<void>;
}

export declare const REDIS_FORMS: Readonly<
  Record<'single' | 'cluster' | 'sentinel', { start(): Promise<FormedRedis>; readonly faults: readonly string[] }>
>;
