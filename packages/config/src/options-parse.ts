import { nearestName } from './flag-nearest.ts';
import { argumentTexts, environmentTexts, type FlagTexts, fileTexts } from './flag-sources.ts';
import { environmentName, FLAGS, type Flag } from './flag-table.ts';
import { readFlag } from './flag-value.ts';
import { type Options, optionsConflict, optionsSchema } from './options.ts';

export interface OptionSources {
  /** The arguments after the command. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Reads the `--config` file; throws where it cannot. */
  readonly readFile: (path: string) => string;
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

function unknownFlag(prefix: string) {
  return (name: string): string => {
    const nearest = nearestName(name, BY_NAME.keys());
    const hint = nearest === undefined ? 'see `nereid serve --help`' : `did you mean ${prefix}${nearest}?`;
    return `unknown option ${prefix}${name}: ${hint}`;
  };
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
  const alias = flag.aliases?.find(({ name }) => name === setting.name);
  return alias?.deprecated === true ? `${setting.label} is deprecated: use --${flag.name}` : undefined;
}

/**
 * Options from command line, environment, file and defaults, in this precedence. Pure but for
 * `readFile`. The error is one line that names the flag and what is allowed.
 */
export function parseOptions(sources: OptionSources): ParsedOptions {
  const settings = new Map<Flag, Setting>();
  const args = argumentTexts(sources.argv, lookup, unknownFlag('--'));
  if (!args.ok) return args;
  addSettings(settings, args.texts, (name) => `--${name}`);
  addSettings(settings, environmentTexts(sources.env, BY_NAME.keys(), lookup), environmentName);

  const file = [...settings].find(([flag]) => flag.name === 'config')?.[1].texts.at(-1) ?? '';
  if (file !== '') {
    const read = readOptionsFile(file, sources.readFile);
    if (!read.ok) return read;
    addSettings(settings, read.texts, (name) => `${name} in ${file}`);
  }

  const input: Record<string, unknown> = {};
  const warnings: string[] = [];
  for (const [flag, setting] of settings) {
    const read = readFlag(flag, setting.texts, setting.label);
    if (!read.ok) return read;
    if (Object.hasOwn(optionsSchema.shape, flag.key)) input[flag.key] = read.value;
    const warning = settingWarning(flag, setting);
    if (warning !== undefined) warnings.push(warning);
  }
  warnings.push(...misspeltVariables(sources.env));
  return finish(input, warnings);
}

function readOptionsFile(file: string, readFile: OptionSources['readFile']) {
  let source: string;
  try {
    source = readFile(file);
  } catch (failure) {
    return {
      ok: false,
      error: `--config ${file}: ${failure instanceof Error ? failure.message : String(failure)}`,
    } as const;
  }
  return fileTexts(source, file, lookup, unknownFlag(''));
}

function finish(input: Readonly<Record<string, unknown>>, warnings: string[]): ParsedOptions {
  const missing = FLAGS.find(
    (flag) => flag.required && (input[flag.key] === undefined || isEmptyList(input[flag.key])),
  );
  if (missing !== undefined) {
    return {
      ok: false,
      error: `--${missing.name} is required, e.g. --${missing.name}=./${missing.name.replaceAll('-', '_')}`,
    };
  }
  const options = optionsSchema.parse(input);
  const conflict = optionsConflict(options);
  if (conflict !== undefined) return { ok: false, error: conflict };
  if (options.modelControlMode !== 'explicit' && options.loadModel.length > 0) {
    warnings.push('--load-model has no effect without --model-control-mode=explicit: every model is loaded');
  }
  return { ok: true, options, warnings };
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}
