import { NereidError } from '@nereid/protocol';
import { z } from 'zod';
import { LIMITS } from './limits.ts';

/** A version that an alias may stand for. */
export interface AliasVersion {
  /** Decimal, without leading zeros. */
  readonly version: string;
  /** Its part of all weights together is its part of the requests; 0 for none. */
  readonly weight: number;
}

/** Where copies of an alias's requests go. */
export interface AliasShadow {
  readonly version: string;
  /** Of the requests that go to other versions, from 0 to 1. */
  readonly share: number;
  /** Floating point values are equal within both; without them bit for bit. */
  readonly atol?: number | undefined;
  readonly rtol?: number | undefined;
}

/** A name that clients use as a model's, and that stands for versions of one model. */
export interface Alias {
  readonly name: string;
  readonly model: string;
  readonly versions: readonly AliasVersion[];
  readonly shadow?: AliasShadow | undefined;
  /** The versions before their last change, to which a roll back returns; absent where there is nothing to return to. */
  readonly before?: readonly AliasVersion[] | undefined;
}

/** All of a cluster, by name. */
export type AliasTable = ReadonlyMap<string, Alias>;

/** The name under which a cluster shares them. */
export const ALIASES_VALUE = 'aliases';

const WEIGHT_MAX = 1_000_000;
/** A folder's name, which a model's is, is no longer. */
const NAME_BYTES_MAX = 255;

const VERSION = 'must be a version\'s number, like "2"';
const versionSchema = z
  .union([z.string().regex(/^[0-9]{1,19}$/, VERSION), z.int(VERSION).min(0, VERSION)], { error: VERSION })
  .transform((version) => String(version).replace(/^0+(?=[0-9])/, ''));
const WEIGHT = `must be a number from 0 to ${WEIGHT_MAX}`;
const SHARE = 'must be a number from 0 to 1';
const TOLERANCE = 'must be a number, 0 or more';
const tolerance = z.number({ error: TOLERANCE }).min(0, TOLERANCE).optional();
const weighted = {
  version: versionSchema,
  weight: z.number({ error: WEIGHT }).min(0, WEIGHT).max(WEIGHT_MAX, WEIGHT),
};
const shadow = {
  version: versionSchema,
  share: z.number({ error: SHARE }).min(0, SHARE).max(1, SHARE).default(1),
  atol: tolerance,
  rtol: tolerance,
};

function versionsSchema<T extends z.ZodType<AliasVersion>>(version: T) {
  return z
    .array(version, { error: 'must be a list of {"version", "weight"}' })
    .min(1, 'must have one version at least')
    .max(LIMITS.alias_versions_max, `may have ${LIMITS.alias_versions_max} versions at most`)
    .refine((versions) => new Set(versions.map((each) => each.version)).size === versions.length, {
      error: 'must not name a version twice',
    })
    .refine((versions) => versions.some(({ weight }) => weight > 0), {
      error: 'must give one version at least a weight above 0',
    });
}

/** What a caller says of an alias; its name may stand in it too. */
const givenSchema = z.strictObject({
  name: z.string().optional(),
  model: z.string({ error: "must be a model's name" }).min(1, "must be a model's name"),
  versions: versionsSchema(z.strictObject(weighted)),
  shadow: z.strictObject(shadow, { error: 'must be an object with "version"' }).nullish(),
});
/** What a later build adds is left out. */
const keptVersions = versionsSchema(z.object(weighted));
const keptSchema = z.object({
  model: z.string(),
  versions: keptVersions,
  shadow: z.object(shadow).optional(),
  before: keptVersions.optional(),
});

/** Throws INVALID_ARG where the name cannot be a model's. */
export function checkAliasName(name: string): void {
  const isLong = Buffer.byteLength(name) > NAME_BYTES_MAX;
  if (name !== '' && name !== '.' && name !== '..' && !isLong && !/[/\p{Cc}]/u.test(name)) return;
  const message = `'${name.slice(0, NAME_BYTES_MAX)}' cannot be an alias: give a name of 1 to ${NAME_BYTES_MAX} bytes without slashes and control characters`;
  throw new NereidError('INVALID_ARG', message, { field: 'name' });
}

/** The alias of that name as its caller describes it. Throws INVALID_ARG with the field that is wrong. */
export function readAlias(name: string, given: unknown): Alias {
  checkAliasName(name);
  const { success, data, error } = givenSchema.safeParse(given);
  if (!success) throw wrongAlias(name, error);
  if (data.name !== undefined && data.name !== name) {
    const message = `the alias is '${name}' by its path and '${data.name}' by its body: leave 'name' out`;
    throw new NereidError('INVALID_ARG', message, { field: 'name' });
  }
  const { model, versions, shadow } = data;
  return { name, model, versions, ...(shadow == null ? {} : { shadow }) };
}

function wrongAlias(name: string, { issues }: z.ZodError): NereidError {
  const [issue] = issues;
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  const path = [...(issue?.path ?? []), ...(unknown === undefined ? [] : [unknown])];
  const field = path
    .map((part, at) => (typeof part === 'number' ? `[${part}]` : `${at === 0 ? '' : '.'}${String(part)}`))
    .join('');
  const why = unknown === undefined ? issue?.message : 'is no member of an alias';
  const message = field === '' ? `alias '${name}' must be a JSON object` : `alias '${name}': ${field} ${why}`;
  throw new NereidError('INVALID_ARG', message, field === '' ? {} : { field });
}

export function encodeAliases(table: AliasTable): string {
  return JSON.stringify(Object.fromEntries([...table].map(([name, { name: _, ...rest }]) => [name, rest])));
}

/** Leaves out what is no alias, as of another build. */
export function decodeAliases(text: string | undefined): AliasTable {
  const table = new Map<string, Alias>();
  for (const [name, value] of Object.entries(membersOf(text))) {
    const { success, data } = keptSchema.safeParse(value);
    if (success) table.set(name, { name, ...data });
  }
  return table;
}

function membersOf(text: string | undefined): object {
  try {
    const value: unknown = JSON.parse(text ?? '{}');
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}
