import type { Command, Ending } from './command.mjs';
import type { PrivateRedis } from './private-redis.mjs';

/** `one`: all roles in one process. `apart`: each role in processes of its own, over Redis. */
export type Mode = 'one' | 'apart';
export type ProcessRole = 'serve' | 'gateway' | 'coordinator' | 'worker';

/** A process that may still be starting. */
export interface StartingProcess extends Command {
  readonly role: ProcessRole;
  /** Rejects where it ends before. */
  readonly started: Promise<StartedProcess>;
}

/** Base addresses of what it serves. */
export interface StartedProcess extends Command {
  readonly role: ProcessRole;
  readonly metrics: string;
  /** Of `serve` and gateways. */
  readonly http: string | undefined;
  /** Host and port for gRPC, of `serve` and gateways. */
  readonly grpc: string | undefined;
}

/** Models that are served. */
export interface Deployment {
  /** Of the first gateway. */
  readonly http: string;
  /** Where the statistics of models are. */
  readonly metrics: string;
  readonly gateways: readonly (StartedProcess & { readonly http: string })[];
  readonly coordinators: readonly StartedProcess[];
  readonly workers: readonly StartedProcess[];
  readonly processes: readonly StartedProcess[];
  /** Absent in mode `one`. */
  readonly redis: PrivateRedis | undefined;
  /** Stops every process by SIGTERM, in the order in which requests travel. */
  stop(): Promise<readonly Ending[]>;
}

export interface Cluster {
  start(role: 'gateway' | 'coordinator' | 'worker', flags?: readonly string[]): StartingProcess;
}

export declare const MODES: readonly Mode[];
export declare function deploy(
  mode: Mode,
  repositories: readonly string[],
  flags?: readonly string[],
  /** Lists of models that stand on the same worker. */
  together?: readonly (readonly string[])[],
): Promise<Deployment>;
export declare function clusterOn(
  redis: { readonly url: string },
  environment?: Readonly<Record<string, string>>,
): Cluster;
export declare function flagEnvironment(flags: readonly string[]): Record<string, string>;
