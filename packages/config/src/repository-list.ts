import { z } from 'zod';

/** `--model-control-mode`. */
export const CONTROL_MODES = ['none', 'poll', 'explicit'] as const;
export type ControlMode = (typeof CONTROL_MODES)[number];

/** A folder of a repository, whether its model was ever loaded or not. */
export interface RepositoryFolder {
  readonly name: string;
  /** Why the model cannot be loaded whatever its files are; null for none. */
  readonly conflict: string | null;
}

/** What coordinators tell of their repositories, since gateways read none. */
export interface RepositoryList {
  readonly controlMode: ControlMode;
  /** By name. */
  readonly folders: readonly RepositoryFolder[];
}

/** The name under which a cluster shares it. */
export const REPOSITORY_VALUE = 'repository';

/** A name alone stands for a folder without a conflict. */
const listSchema = z.object({
  mode: z.enum(CONTROL_MODES),
  models: z.array(z.union([z.string(), z.tuple([z.string(), z.string()])])),
});

export function encodeRepositoryList({ controlMode, folders }: RepositoryList): string {
  const models = folders.map(({ name, conflict }) => (conflict === null ? name : [name, conflict]));
  return JSON.stringify({ mode: controlMode, models });
}

/** Undefined for a text that no coordinator of this build writes. */
export function decodeRepositoryList(text: string): RepositoryList | undefined {
  const { success, data } = listSchema.safeParse(jsonOf(text));
  if (!success) return undefined;
  const folders = data.models.map((model) => {
    const [name, conflict] = typeof model === 'string' ? [model, null] : model;
    return { name, conflict };
  });
  return { controlMode: data.mode, folders };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
