import type { FlagRole } from './flag-meta.ts';
import { nearestName } from './flag-nearest.ts';
import { argumentTexts, environmentTexts, type FlagTexts, fileTexts } from './flag-sources.ts';
import { environmentName, FLAGS, type Flag, isReadBy, roleFallback } from './flag-table.ts';
import { readFlag } from './flag-value.ts';
import { type Options, optionsConflict, optionsSchema } from './options.ts';
import { readCacheConfig } from './options-cache.ts';

export interface OptionSources {
  /** The arguments after the command. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads the `--config` file; throws where it cannot. */
  readonly readFile: (path: string) => string;
  /** The one role that the process has; all of them without it (`serve`). */
  readonly role?: FlagRole;
}

export type ParsedOptions =
  | { readonly ok: true; readonly options: Options; readonly warnings: readonly string[] }
  | { readonly ok: false; readonly error: string };

/** A set flag: its texts and the name under which its source has it. */
interface Setting {
  readonly texts: readonly string[];
  readonly name: string;
  readonly label: string;
}

const BY_NAME: ReadonlyMap<string, Flag> = new Map(
  FLAGS.flatMap((flag) =>
    [flag.name, ...(flag.aliases ?? []).map((alias) => alias.name)].map((name) => [name, flag] as const),
  ),
);

const lookup = (name: string): Flag | undefined => BY_NAME.get(name);

/** Takes what `texts` sets and nothing of higher precedence has set yet. A flag and its alias in one source add up. */
function addSettings(settings: Map<Flag, Setting>, texts: FlagTexts, label: (name: string) => string): void {
  const added = new Map<Flag, Setting>();
  for (const [name, list] of texts) {
    const flag = lookup(name);
    if (flag === undefined || settings.has(flag)) continue;
    added.set(flag, { texts: [...(added.get(flag)?.texts ?? []), ...list], name, label: label(name) });
  }
  for (const [flag, setting] of added) settings.set(flag, setting);
}

function unknownFlag(prefix: string, role: FlagRole | undefined) {
  return (name: string): string => {
    const candidates = [...BY_NAME].filter(([, flag]) => isReadBy(flag, role)).map(([known]) => known);
    const nearest = nearestName(name, candidates);
    const hint =
      nearest === undefined ? `see \`nereid ${role ?? 'serve'} --help\`` : `did you mean ${prefix}${nearest}?`;
    return `unknown option ${prefix}${name}: ${hint}`;
  };
}

/** The first argument that is a flag of other roles only, in words. */
function foreignFlag(names: Iterable<string>, role: FlagRole | undefined): string | undefined {
  for (const name of names) {
    const flag = lookup(name);
    if (flag === undefined || isReadBy(flag, role)) continue;
    const roles = flag.roles.map((other) => `the ${other}`).join(' and ');
    return `--${name} belongs to ${roles === '' ? '`nereid serve`' : roles}: remove it here`;
  }
  return undefined;
}

/** Variables that look like a misspelt flag. Others of that prefix belong to other tools. */
function* misspeltVariables(env: OptionSources['env']): Iterable<string> {
  const known = new Map([...BY_NAME.keys()].map((name) => [environmentName(name), name]));
  for (const variable of Object.keys(env).sort()) {
    if (!variable.startsWith('NEREID_') || known.has(variable)) continue;
    const nearest = nearestName(
      variable.slice('NEREID_'.length),
      [...known.keys()].map((name) => name.slice('NEREID_'.length)),
    );
    if (nearest !== undefined) yield `${variable} is not read: did you mean NEREID_${nearest}?`;
  }
}

function settingWarning(flag: Flag, setting: Setting): string | undefined {
  if (flag.noEffect !== undefined) {
    const last = setting.texts.at(-1)?.toLowerCase();
    const agrees = last === flag.agrees || (flag.kind === 'boolean' && last === '0' && flag.agrees === 'false');
    return agrees ? undefined : `${setting.label} has no effect in this version: ${flag.noEffect}`;
  }
  if (flag.deprecated !== undefined) return `${setting.label} is deprecated: use ${flag.deprecated}`;
  const alias = flag.aliases?.find(({ name }) => name === setting.name);
  return alias?.deprecated === true ? `${setting.label} is deprecated: use --${flag.name}` : undefined;
}

/**
 * Options from command line, environment, file and defaults, in this precedence. Pure but for
 * `readFile`. The error is one line that names the flag and what is allowed. With a role, flags of
 * other roles are refused on the command line, which is that process's own, and left unread in the
 * environment and the file, which processes may share; they have their defaults in the result.
 */
export function parseOptions(sources: OptionSources): ParsedOptions {
  const { role } = sources;
  const settings = new Map<Flag, Setting>();
  const args = argumentTexts(sources.argv, lookup, unknownFlag('--', role));
  if (!args.ok) return args;
  const foreign = foreignFlag(args.texts.keys(), role);
  if (foreign !== undefined) return { ok: false, error: foreign };
  addSettings(settings, args.texts, (name) => `--${name}`);
  addSettings(settings, environmentTexts(sources.env, BY_NAME.keys(), lookup), environmentName);

  const file = [...settings].find(([flag]) => flag.name === 'config')?.[1].texts.at(-1) ?? '';
  if (file !== '') {
    const read = readOptionsFile(file, sources);
    if (!read.ok) return read;
    addSettings(settings, read.texts, (name) => `${name} in ${file}`);
  }

  const input: Record<string, unknown> = {};
  const warnings: string[] = [];
  for (const [flag, setting] of settings) {
    if (!isReadBy(flag, role)) continue;
    const read = readFlag(flag, setting.texts, setting.label);
    if (!read.ok) return read;
    if (Object.hasOwn(optionsSchema.shape, flag.key)) input[flag.key] = read.value;
    const warning = settingWarning(flag, setting);
    if (warning !== undefined) warnings.push(warning);
  }
  warnings.push(...misspeltVariables(sources.env));
  return finish(input, warnings, role);
}

function readOptionsFile(file: string, { readFile, role }: OptionSources) {
  let source: string;
  try {
    source = readFile(file);
  } catch (failure) {
    return {
      ok: false,
      error: `--config ${file}: ${failure instanceof Error ? failure.message : String(failure)}`,
    } as const;
  }
  return fileTexts(source, file, lookup, unknownFlag('', role));
}

function finish(
  input: Readonly<Record<string, unknown>>,
  warnings: string[],
  role: FlagRole | undefined,
): ParsedOptions {
  const missing = missingFlag(input, role);
  if (missing !== undefined) return { ok: false, error: missing };
  const options = defaulted(input, role);
  const conflict = optionsConflict(options, role);
  if (conflict !== undefined) return { ok: false, error: conflict };
  if (options.modelControlMode !== 'explicit' && options.loadModel.length > 0) {
    warnings.push('--load-model has no effect without --model-control-mode=explicit: every model is loaded');
  }
  if (options.rateLimit === 'off' && options.rateLimitResource.length > 0) {
    warnings.push('--rate-limit-resource has no effect without --rate-limit=execution_count: nothing is limited');
  }
  if (role === undefined && (options.workerMemoryLimit > 0 || options.workerMaxLoads > 0)) {
    warnings.push(
      '--worker-memory-limit and --worker-max-loads have no effect in one process: only a worker by itself is replaced',
    );
  }
  const cache = readCacheConfig(options);
  if (cache.ok) warnings.push(...cache.warnings);
  return { ok: true, options, warnings };
}

function missingFlag(input: Readonly<Record<string, unknown>>, role: FlagRole | undefined): string | undefined {
  const missing = FLAGS.find(
    (flag) => flag.required && isReadBy(flag, role) && (input[flag.key] === undefined || isEmptyList(input[flag.key])),
  );
  if (missing !== undefined) {
    return `--${missing.name} is required, e.g. --${missing.name}=./${missing.name.replaceAll('-', '_')}`;
  }
  // Roles apart meet in one Redis; only `serve` can start a private one.
  if (role !== undefined && (input.redisUrl ?? '') === '') {
    return '--redis-url is required, e.g. --redis-url=redis://127.0.0.1:6379';
  }
  return undefined;
}

/** The read options with the defaults of the role. One without a repository has none. */
function defaulted(input: Readonly<Record<string, unknown>>, role: FlagRole | undefined): Options {
  const fallbacks: Record<string, unknown> = {};
  for (const flag of FLAGS) {
    const fallback = roleFallback(flag, role);
    if (fallback !== undefined) fallbacks[flag.key] = fallback;
  }
  const given = { ...fallbacks, ...input };
  if (role !== 'gateway') return optionsSchema.parse(given);
  return { modelRepository: [], ...optionsSchema.omit({ modelRepository: true }).parse(given) };
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
