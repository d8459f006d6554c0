import { z } from 'zod';

export type FlagTopic =
  | 'Server'
  | 'Models'
  | 'HTTP'
  | 'gRPC'
  | 'Metrics'
  | 'Logging'
  | 'Tracing'
  | 'Hardware'
  | 'Cloud';

/** The roles that read a flag once they run apart. */
export type FlagRole = 'gateway' | 'coordinator' | 'worker';

/** What the schema of a value does not say about its flag. */
export interface FlagMeta {
  /** One sentence or two: the help text, and the row in docs/flags.md. */
  readonly description: string;
  readonly topic: FlagTopic;
  readonly roles: readonly FlagRole[];
  /** Ours where Triton has no such flag. */
  readonly ours?: true;
  /** What stands for the value in help, e.g. `<backend>,<key>=<value>`. */
  readonly form?: string;
  /** Further names for the same value. A deprecated one is warned about. */
  readonly aliases?: readonly { readonly name: string; readonly deprecated: boolean }[];
  /** Values of Triton's that this version does not have, with what to use instead. */
  readonly notYet?: Readonly<Record<string, string>>;
  /** Why setting it changes nothing in this version. */
  readonly noEffect?: string;
  /** With `noEffect`: the value that is how this version behaves anyway, so that asking for it is not warned about. */
  readonly agrees?: string;
}

export const flagMetas = z.registry<FlagMeta>();

export const EVERY_ROLE: readonly FlagRole[] = ['gateway', 'coordinator', 'worker'];
export const GATEWAY: readonly FlagRole[] = ['gateway'];
export const MODEL_ROLES: readonly FlagRole[] = ['coordinator', 'worker'];
