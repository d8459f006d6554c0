import { z } from 'zod';

/** `--model-control-mode`. */
export const CONTROL_MODES = ['none', 'poll', 'explicit'] as const;
export type ControlMode = (typeof CONTROL_MODES)[number];

/** A folder of a repository, whether its model was ever loaded or not. */
export interface RepositoryFolder {
  readonly name: string;
  /** Why the model cannot be loaded whatever its files are; null for none. */
  readonly conflict: string | null;
  /** With `--model-namespacing`, where it is: the name may have a namespace before the folder's own. */
  readonly from?: { readonly repository: string; readonly folder: string };
}

/** What coordinators tell of their repositories, since gateways read none. */
export interface RepositoryList {
  readonly controlMode: ControlMode;
  /** By name. */
  readonly folders: readonly RepositoryFolder[];
}

/** The name under which a cluster shares it. */
export const REPOSITORY_VALUE = 'repository';

/**
 * A name alone stands for a folder without a conflict; with namespacing each has the place of its repository in their list,
 * and its folder.
 */
const listSchema = z.object({
  mode: z.enum(CONTROL_MODES),
  repositories: z.array(z.string()).optional(),
  models: z.array(
    z.union([
      z.string(),
      z.tuple([z.string(), z.string()]),
      z.tuple([z.string(), z.string().nullable(), z.int().min(0), z.string()]),
    ]),
  ),
});

export function encodeRepositoryList({ controlMode, folders }: RepositoryList): string {
  const repositories = [...new Set(folders.flatMap(({ from }) => from?.repository ?? []))];
  const models = folders.map(({ name, conflict, from }) => {
    if (from !== undefined) return [name, conflict, repositories.indexOf(from.repository), from.folder];
    return conflict === null ? name : [name, conflict];
  });
  return JSON.stringify({ mode: controlMode, ...(repositories.length === 0 ? {} : { repositories }), models });
}

/** Undefined for a text that no coordinator of this build writes. */
export function decodeRepositoryList(text: string): RepositoryList | undefined {
  const { success, data } = listSchema.safeParse(jsonOf(text));
  if (!success) return undefined;
  const folders = data.models.map((model): RepositoryFolder => {
    if (typeof model === 'string') return { name: model, conflict: null };
    const [name, conflict, index, folder] = model;
    const repository = index === undefined ? undefined : data.repositories?.[index];
    const from = repository === undefined || folder === undefined ? {} : { from: { repository, folder } };
    return { name, conflict, ...from };
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
