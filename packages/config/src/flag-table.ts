import { z } from 'zod';
import { inertSchema } from './flag-inert.ts';
import { EVERY_ROLE, type FlagMeta, type FlagRole, flagMetas } from './flag-meta.ts';
import { optionsSchema } from './options.ts';

export type FlagKind = 'boolean' | 'integer' | 'number' | 'text' | 'choice';

/** A flag as the parser, the help text and the docs see it. */
export interface Flag extends FlagMeta {
  /** Without the dashes, e.g. `http-port`. */
  readonly name: string;
  /** Its key in the schema, e.g. `httpPort`. */
  readonly key: string;
  /** Of one value; several where it is repeatable. */
  readonly kind: FlagKind;
  readonly repeatable: boolean;
  readonly required: boolean;
  /** In words of the command line; '' for an empty or absent default. */
  readonly fallback: string;
  /** The value's place in help, e.g. `<port>`. */
  readonly valueForm: string;
  /** What a value may be, for error texts. */
  readonly allowed: string;
  readonly schema: z.ZodType;
}

/** The file of options is itself no option: it can stand only on the command line or in the environment. */
const fileSchema = z.strictObject({
  config: z.string().default('').register(flagMetas, {
    topic: 'Server',
    roles: EVERY_ROLE,
    ours: true,
    form: '<file>',
    description: 'A YAML file of options: flag names without dashes as keys, lists for repeatable flags.',
  }),
});

/** True where that role reads it; without a role, for `serve`, always. */
export function isReadBy(flag: Pick<FlagMeta, 'roles'>, role: FlagRole | undefined): boolean {
  return role === undefined || flag.roles.includes(role);
}

/** Its default for one role, where that is another than that of `serve`. */
export function roleFallback(flag: Pick<FlagMeta, 'roleFallbacks'>, role: FlagRole | undefined): number | undefined {
  return role === undefined ? undefined : flag.roleFallbacks?.[role];
}

/** `httpPort` → `http-port`. */
export function flagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** `http-port` → `NEREID_HTTP_PORT`. */
export function environmentName(flag: string): string {
  return `NEREID_${flag.toUpperCase().replaceAll('-', '_')}`;
}

function kindOf(json: z.core.JSONSchema.BaseSchema): FlagKind {
  if (json.enum !== undefined) return 'choice';
  if (json.type === 'boolean' || json.type === 'integer' || json.type === 'number') return json.type;
  return 'text';
}

function allowedText(kind: FlagKind, json: z.core.JSONSchema.BaseSchema, form: string): string {
  if (kind === 'boolean') return 'true, false, 1 or 0';
  if (kind === 'choice') return `one of ${json.enum?.join(', ')}`;
  if (kind === 'text') return json.pattern === undefined ? 'a text that is not empty' : form;
  const noun = kind === 'integer' ? 'a whole number' : 'a number';
  const { minimum: min = Number.MIN_SAFE_INTEGER, maximum: max = Number.MAX_SAFE_INTEGER } = json;
  const bounded = { min: min > Number.MIN_SAFE_INTEGER, max: max < Number.MAX_SAFE_INTEGER };
  if (bounded.min && bounded.max) return `${noun} from ${min} to ${max}`;
  return bounded.min ? `${noun} from ${min} up` : noun;
}

const VALUE_FORMS: Readonly<Record<FlagKind, string>> = {
  boolean: 'true|false',
  integer: '<number>',
  number: '<number>',
  text: '<text>',
  choice: '',
};

function describeFlag(key: string, schema: z.ZodType): Flag {
  const meta = flagMetas.get(schema);
  if (meta === undefined) throw new Error(`option ${key} has no flag metadata`);
  const json = z.toJSONSchema(schema, { io: 'input' });
  const repeatable = json.type === 'array';
  const item = json.items;
  const value = repeatable && typeof item === 'object' && !Array.isArray(item) ? item : json;
  const kind = kindOf(value);
  const form = meta.form ?? (kind === 'choice' ? (value.enum?.join('|') ?? '') : VALUE_FORMS[kind]);
  return {
    ...meta,
    name: flagName(key),
    key,
    kind,
    repeatable,
    required: json.default === undefined,
    fallback: json.default === undefined ? '' : String(json.default),
    valueForm: form,
    allowed: meta.allowed ?? allowedText(kind, value, form),
    schema,
  };
}

/** Every flag: those that have an effect, then `--config`, then those that have none. */
export const FLAGS: readonly Flag[] = [optionsSchema, fileSchema, inertSchema].flatMap((schema) =>
  Object.entries(schema.shape).map(([key, field]) => describeFlag(key, field)),
);
