import {
  ALIASES_VALUE,
  type Alias,
  type AliasTable,
  decodeAliases,
  decodeRepositoryList,
  encodeAliases,
  LIMITS,
  type ModelRecord,
  modelSignature,
  promotedAlias,
  REPOSITORY_VALUE,
  readAlias,
  replacedAlias,
  rolledBackAlias,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import { changeValue, type Directory } from '@nereid/transport';
import { type Result, resultOf } from './result.ts';

/**
 * The aliases of the cluster: one shared value, so that each change holds for all gateways at once, within a heartbeat.
 * Errors: INVALID_ARG for what is wrong with the alias, NOT_FOUND for none of that name or no such model or version,
 * ALREADY_EXISTS where a model has the name, or there is nothing to roll back to, UNAVAILABLE where the directory does not
 * answer.
 */
export interface AliasService {
  /** By name. */
  list(): readonly Alias[];
  find(name: string): Alias | undefined;
  /** Makes it, or replaces what is there. `given`: parsed JSON. */
  put(name: string, given: unknown): Promise<Result<Alias>>;
  /** Gives all weight to that version. */
  promote(name: string, version: string): Promise<Result<Alias>>;
  /** Gives the versions the weights that they had before their last change. */
  rollBack(name: string): Promise<Result<Alias>>;
  /** What it was. */
  remove(name: string): Promise<Result<Alias>>;
}

export interface AliasServiceParts {
  readonly directory: Pick<Directory<ModelRecord>, 'value' | 'setValue' | 'watch' | 'record'>;
  readonly log: Log;
}

export function createAliasService({ directory, log }: AliasServiceParts): AliasService {
  const table = (): AliasTable => decodeAliases(directory.value(ALIASES_VALUE)?.text);

  /** `make` is given what is there now, also where another process has changed it since; null takes it away. */
  const change = (name: string, what: string, make: (known: Alias | undefined) => Alias | null) =>
    resultOf(async () => {
      let made: Alias | null | undefined;
      let before: Alias | undefined;
      await changeValue(directory, ALIASES_VALUE, (text) => {
        const aliases = new Map(decodeAliases(text));
        before = aliases.get(name);
        made = make(before);
        if (made === null) aliases.delete(name);
        else aliases.set(name, made);
        if (aliases.size > LIMITS.aliases_max) throw tooMany(name);
        return encodeAliases(aliases);
      });
      log.info({ alias: made ?? before, before }, `alias ${what}`);
      return made ?? before ?? missing(name);
    });

  const checkModel = ({ name, model, versions, shadow }: Alias) => {
    const record = directory.record(model);
    if (record === undefined) throw refused('NOT_FOUND', `alias '${name}': there is no model '${model}'`, 'model');
    const known = record.versions.map(({ version }) => version);
    const asked = versions.map(({ version }) => version);
    const unknown = [...asked, ...(shadow === undefined ? [] : [shadow.version])].find((each) => !known.includes(each));
    if (unknown !== undefined) throw noVersion(name, record, unknown);
    if (shadow !== undefined && modelSignature(record.config).decoupled) {
      const message = `alias '${name}': model '${model}' is decoupled, and streams are not copied: leave 'shadow' out`;
      throw refused('UNSUPPORTED', message, 'shadow');
    }
  };

  const checkFree = (name: string) => {
    const list = directory.value(REPOSITORY_VALUE);
    const folders = list === undefined ? [] : (decodeRepositoryList(list.text)?.folders ?? []);
    if (directory.record(name) === undefined && !folders.some((folder) => folder.name === name)) return;
    const message = `'${name}' is a model's name, which its clients use: give the alias another one`;
    throw refused('ALREADY_EXISTS', message, 'name');
  };

  return {
    list: () => [...table().values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    find: (name) => table().get(name),
    put: (name, given) =>
      change(name, 'set', (known) => {
        const alias = readAlias(name, given);
        checkFree(name);
        checkModel(alias);
        return replacedAlias(known, alias);
      }),
    promote: (name, version) =>
      change(name, 'promoted', (known) => {
        const alias = promotedAlias(known ?? missing(name), version);
        const record = directory.record(alias.model);
        if (record !== undefined && !record.versions.some((each) => each.version === version))
          throw noVersion(name, record, version);
        checkModel({ ...alias, versions: [{ version, weight: 1 }], shadow: undefined });
        if (alias.versions.length > LIMITS.alias_versions_max) throw tooManyVersions(name);
        return alias;
      }),
    rollBack: (name) => change(name, 'rolled back', (known) => rolledBackAlias(known ?? missing(name))),
    remove: (name) =>
      change(name, 'removed', (known) => {
        if (known === undefined) missing(name);
        return null;
      }),
  };
}

function missing(name: string): never {
  throw refused('NOT_FOUND', `there is no alias '${name}'`);
}

function noVersion(name: string, { name: model, versions }: ModelRecord, version: string): NereidError {
  const known = versions.length === 0 ? 'none is known' : `it has ${versions.map((each) => each.version).join(', ')}`;
  return refused('NOT_FOUND', `alias '${name}': model '${model}' has no version ${version}: ${known}`, 'version');
}

function tooMany(name: string): NereidError {
  return refused('INVALID_ARG', `alias '${name}' would be one more than ${LIMITS.aliases_max}: remove another first`);
}

function tooManyVersions(name: string): NereidError {
  const message = `alias '${name}' has ${LIMITS.alias_versions_max} versions: leave some of them out first`;
  return refused('INVALID_ARG', message, 'version');
}

function refused(
  code: 'NOT_FOUND' | 'INVALID_ARG' | 'ALREADY_EXISTS' | 'UNSUPPORTED',
  message: string,
  field?: string,
): NereidError {
  return new NereidError(code, message, field === undefined ? {} : { field });
}
