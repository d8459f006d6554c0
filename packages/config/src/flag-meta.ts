import { z } from 'zod';

export type FlagTopic =
  | 'Server'
  | 'Models'
  | 'Redis'
  | 'HTTP'
  | 'gRPC'
  | 'Metrics'
  | 'Logging'
  | 'Tracing'
  | 'Hardware'
  | 'Cloud';

/** The roles that can run apart, each with the flags that it reads. */
export type FlagRole = 'gateway' | 'coordinator' | 'worker';

/** What the schema of a value does not say about its flag. */
export interface FlagMeta {
  /** One sentence or two: the help text, and the row in docs/flags.md. */
  readonly description: string;
  readonly topic: FlagTopic;
  /** Who reads it where the roles run apart; `serve`, with all of them in one process, reads every flag. */
  readonly roles: readonly FlagRole[];
  /** Ours where Triton has no such flag. */
  readonly ours?: true;
  /** What stands for the value in help, e.g. `<backend>,<key>=<value>`. */
  readonly form?: string;
  /** Of a repeatable flag: one text may hold several values with this between them. */
  readonly separator?: ',';
  /** What a value may be, for error texts, where the schema's own words do not do. */
  readonly allowed?: string;
  /** Further names for the same value. A deprecated one is warned about. */
  readonly aliases?: readonly { readonly name: string; readonly deprecated: boolean }[];
  /** Holds a password, perhaps: its value stands in no error text. */
  readonly secret?: true;
  /** What to use in place of it; setting it is warned about. */
  readonly deprecated?: string;
  /** Defaults of roles where it is another than that of `serve`. */
  readonly roleFallbacks?: Readonly<Partial<Record<FlagRole, number>>>;
  /** Why setting it changes nothing in this version. */
  readonly noEffect?: string;
  /** With `noEffect`: the value that is how this version behaves anyway, so that asking for it is not warned about. */
  readonly agrees?: string;
}

export const flagMetas = z.registry<FlagMeta>();

export const EVERY_ROLE: readonly FlagRole[] = ['gateway', 'coordinator', 'worker'];
/** For flags that make sense only with all roles in one process. */
export const SERVE_ONLY: readonly FlagRole[] = [];
export const WORKER: readonly FlagRole[] = ['worker'];
export const COORDINATOR: readonly FlagRole[] = ['coordinator'];
export const JOB_ROLES: readonly FlagRole[] = ['gateway', 'coordinator'];
/** Those that write recordings: workers what they run, gateways what comes as a file. */
export const RECORDER_ROLES: readonly FlagRole[] = ['gateway', 'worker'];
export const GATEWAY: readonly FlagRole[] = ['gateway'];
export const MODEL_ROLES: readonly FlagRole[] = ['coordinator', 'worker'];
