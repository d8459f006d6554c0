import { z } from 'zod';
import type { OverrideRef } from './override-ref.ts';
import { CONTROL_MODES, type ControlMode } from './repository-list.ts';

/** How a cluster's repositories are used: the same in all processes that read them. */
export interface RepositorySetup {
  readonly controlMode: ControlMode;
  /** Folders and URLs, as they were given. */
  readonly repositories: readonly string[];
  readonly namespacing: boolean;
}

/** What is wanted of a model, with control mode `explicit`: that it is loaded, if not said otherwise. */
export interface DesiredModel {
  /** It was unloaded on purpose, and is shown as that. */
  readonly unloaded?: true;
  /** Nobody has named it: an ensemble wants it. */
  readonly implicit?: true;
  /** What is taken in place of the repository's files. */
  readonly override?: OverrideRef;
  /** With an override of the config: the signature of the model's own files by then. */
  readonly files?: string;
}

/** What a cluster is to serve: set by the flags at its start, changed by the API since. */
export interface DesiredState extends RepositorySetup {
  /** By name; absent while no coordinator has said, and with other control modes. */
  readonly models?: Readonly<Record<string, DesiredModel>>;
}

/** The name under which a cluster shares it. */
export const DESIRED_VALUE = 'desired';

const overrideSchema = z.object({
  config: z.string().optional(),
  files: z.record(z.string(), z.string()).optional(),
});
const modelSchema = z.object({
  unloaded: z.literal(true).optional(),
  implicit: z.literal(true).optional(),
  override: overrideSchema.optional(),
  files: z.string().optional(),
});
const stateSchema = z.object({
  controlMode: z.enum(CONTROL_MODES),
  repositories: z.array(z.string()),
  namespacing: z.boolean(),
  models: z.record(z.string(), modelSchema).optional(),
});

export function encodeDesiredState(state: DesiredState): string {
  return JSON.stringify(state);
}

/** Undefined for a text that no process of this build writes, and for none. */
export function decodeDesiredState(text: string | undefined): DesiredState | undefined {
  const { success, data } = stateSchema.safeParse(jsonOf(text));
  // Zod has `undefined` for what is left out.
  return success ? (JSON.parse(JSON.stringify(data)) as DesiredState) : undefined;
}

function jsonOf(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What a process was given otherwise than its cluster has it, in words with both values; undefined for nothing. */
export function setupDifference(cluster: RepositorySetup, own: RepositorySetup): string | undefined {
  const flags = [
    ['--model-control-mode', cluster.controlMode, own.controlMode],
    ['--model-repository', cluster.repositories.join(', '), own.repositories.join(', ')],
    ['--model-namespacing', String(cluster.namespacing), String(own.namespacing)],
  ] as const;
  const found = flags.find(([, theirs, ours]) => theirs !== ours);
  if (found === undefined) return undefined;
  const [flag, theirs, ours] = found;
  return `${flag} is '${ours}' here and '${theirs}' in the cluster: give this process the cluster's, or stop all of its processes to change them`;
}
