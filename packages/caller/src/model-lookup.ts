import {
  type Alias,
  cachesAnswers,
  checkEnsembleModels,
  closesEarly,
  ensembleReadiness,
  type ModelRecord,
  type ModelSignature,
  modelSignature,
} from '@nereid/config';
import {
  ambiguousModel,
  type ErrorInfo,
  INT64_MAX,
  modelNotFound,
  noVersionReady,
  UNLOADED,
  versionNotFound,
  versionNotReady,
} from '@nereid/protocol';
import type { Directory } from '@nereid/transport';
import type { Aliases } from './aliases.ts';
import type { KnownRecords } from './known-records.ts';
import type { ModelNames } from './model-names.ts';

const INT64_DIGITS_MAX = 19;

export interface ModelFound {
  readonly ok: true;
  /** As it was asked for: the model's, or that of an alias of it. */
  readonly name: string;
  /** By which it was found. */
  readonly alias: Alias | undefined;
  readonly record: ModelRecord;
  readonly signature: ModelSignature;
  /** The READY version meant: the one asked for, without leading zeros, or the greatest. */
  readonly version: string;
  /** Its owner is to hear of requests that begin to come. */
  readonly closesEarly: boolean;
  /** Its answers may be kept and given again. */
  readonly cachesAnswers: boolean;
  /** All READY versions, ascending; of an alias those that it names. */
  readonly readyVersions: readonly string[];
}

export type ModelLookup = ModelFound | { readonly ok: false; readonly error: ErrorInfo };

export interface ModelLookups {
  /**
   * A model version that can take requests, by name and decimal version ('' for the greatest READY
   * one). Errors carry Triton's texts and codes (model_lifecycle.cc, GetModel). An alias is found under its name as a
   * model with its versions alone would be; of several READY ones without a version asked for, `version` is any.
   */
  find(name: string, version: string): ModelLookup;
  /**
   * True where that version is READY and the model has an owner to send requests to; of an alias without a version each
   * to which requests go.
   */
  ready(name: string, version: string): boolean;
  /** Every model with a READY version, by name, each with its greatest; an entry is the same until its record changes. */
  served(): readonly ModelFound[];
  /**
   * Triton's strict readiness: every version known is READY or was unloaded on purpose, and each
   * model that serves has an owner. A model whose config failed has no record and does not count.
   */
  allReady(): boolean;
}

/** What requests need of a record, worked out once per record published. */
interface RecordView {
  readonly signature: ModelSignature;
  readonly readyVersions: readonly string[];
  /** The answer to each lookup that ends well, by version as asked; '' is the greatest. */
  readonly found: ReadonlyMap<string, ModelFound>;
}

export function createModelLookups(
  directory: Directory<ModelRecord>,
  records: Pick<KnownRecords, 'find'>,
  { aliases, names }: { readonly aliases: Aliases; readonly names: ModelNames },
  /** Roles are processes of their own. */
  apart: boolean,
): ModelLookups {
  const views = new WeakMap<ModelRecord, RecordView>();

  const viewOf = (record: ModelRecord) => {
    let view = views.get(record);
    if (view === undefined) {
      view = recordView(record);
      views.set(record, view);
    }
    return view;
  };

  /** Under the model's own name. */
  const findNamed = (name: string, version: string): ModelLookup => {
    const record = records.find(name);
    if (record === undefined) return missing(modelNotFound(name));
    const view = viewOf(record);
    return view.found.get(version) ?? findMissing(record, view, version, apart);
  };

  const findModel = (name: string, version: string): ModelLookup => {
    const found = findNamed(name, version);
    if (found.ok) return found;
    const meant = names.resolve(name);
    if (typeof meant === 'number') return missing(ambiguousModel(name, meant));
    return meant === undefined ? found : findNamed(meant, version);
  };

  const find = (name: string, version: string): ModelLookup => {
    const alias = aliases.find(name);
    return alias === undefined ? findModel(name, version) : findAliased(alias, version, findModel);
  };

  const ready = (name: string, version: string) => {
    const found = find(name, version);
    if (!found.ok || directory.owner(found.record.name) === undefined) return false;
    if (found.alias === undefined || version !== '') return true;
    const { readyVersions } = found;
    return found.alias.versions.every((each) => each.weight === 0 || readyVersions.includes(each.version));
  };

  /** An ensemble's owner is about to serve it. */
  const hasItsModels = ({ config }: ModelRecord) =>
    (ensembleReadiness(config, records.find) ?? checkEnsembleModels(config, records.find)) === undefined;

  return {
    find,
    ready,
    served: () =>
      directory
        .records()
        .map((record) => viewOf(record).found.get(''))
        .filter((found) => found !== undefined)
        .toSorted((a, b) => (a.record.name < b.record.name ? -1 : 1)),
    allReady: () =>
      directory.records().every((record) => {
        // What an ensemble waits for counts with its models alone, as in Triton; it waits for nothing once they are right.
        if (record.awaitsModels === true) return !hasItsModels(record);
        // No version at all: none of the policy's folders exists, which is a failed load.
        const settled = record.versions.length > 0 && record.versions.every(isReadyOrUnloaded);
        return settled && (viewOf(record).readyVersions.length === 0 || directory.owner(record.name) !== undefined);
      }),
  };
}

function isReadyOrUnloaded(version: ModelRecord['versions'][number]): boolean {
  return version.state === 'READY' || version.reason === UNLOADED;
}

function recordView(record: ModelRecord): RecordView {
  const signature = modelSignature(record.config);
  const readyVersions = record.versions.filter((each) => each.state === 'READY').map((each) => each.version);
  const found = new Map<string, ModelFound>();
  for (const version of readyVersions) {
    const entry: ModelFound = {
      ok: true,
      name: record.name,
      alias: undefined,
      record,
      signature,
      version,
      closesEarly: closesEarly(record.config),
      cachesAnswers: cachesAnswers(record.config),
      readyVersions,
    };
    found.set(version, entry);
    found.set('', entry);
  }
  return { signature, readyVersions, found };
}

/** A version of the model that the alias names; without one asked for any that is READY, else why the likeliest is not. */
function findAliased(alias: Alias, version: string, find: ModelLookups['find']): ModelLookup {
  const wrong = versionRefusal(version);
  if (wrong !== undefined) return missing(wrong);
  const { name, model, versions } = alias;
  const named = versions.map((each) => each.version);
  const asked = plainVersion(version);
  if (version !== '' && !named.includes(asked)) return missing(versionNotFound(name, asked));
  const byWeight = versions.toSorted((a, b) => b.weight - a.weight).map((each) => each.version);
  const lookups = (version === '' ? byWeight : [asked]).map((each) => find(model, each));
  const found = lookups.find(({ ok }) => ok) ?? lookups[0];
  if (found?.ok !== true) return found ?? missing(modelNotFound(name));
  const readyVersions = found.readyVersions.filter((each) => named.includes(each));
  return { ...found, name, alias, signature: namedSignature(found.signature, alias), readyVersions };
}

const namedSignatures = new WeakMap<Alias, ModelSignature>();

/** With the name by which the client knows it, as what is wrong with a request is told; the same for each request. */
function namedSignature(signature: ModelSignature, alias: Alias): ModelSignature {
  const known = namedSignatures.get(alias);
  if (known !== undefined && known.inputs === signature.inputs) return known;
  const named = { ...signature, name: alias.name };
  namedSignatures.set(alias, named);
  return named;
}

/** The rarer ways: a version written with leading zeros, and every error. */
function findMissing(record: ModelRecord, view: RecordView, version: string, apart: boolean): ModelLookup {
  if (version === '') return missing(noVersionReady(record.name, record.versions, apart));
  const wrong = versionRefusal(version);
  if (wrong !== undefined) return missing(wrong);
  const plain = plainVersion(version);
  const found = view.found.get(plain);
  if (found !== undefined) return found;
  const known = record.versions.some((each) => each.version === plain);
  return missing(known ? versionNotReady(record.name, plain) : versionNotFound(record.name, plain));
}

/** What is wrong with a version as a client wrote it; undefined for '' and for numbers from 0. */
export function versionRefusal(version: string): ErrorInfo | undefined {
  if (version === '' || (/^[0-9]+$/.test(version) && isInt64(plainVersion(version)))) return undefined;
  const message = /^-[0-9]+$/.test(version)
    ? `invalid model version specified '${version}' , version should be an integral value > 0`
    : `failed to get model version from specified version string '${version}' (details: stol), ` +
      'version should be an integral value > 0';
  return { code: 'INVALID_ARG', message };
}

/** Without leading zeros. */
function plainVersion(version: string): string {
  return version.replace(/^0+(?=\d)/, '');
}

/** A client may write millions of digits, of which to make a number would take seconds. */
function isInt64(digits: string): boolean {
  return digits.length <= INT64_DIGITS_MAX && BigInt(digits) <= INT64_MAX;
}

function missing(error: ErrorInfo): ModelLookup {
  return { ok: false, error };
}
