import { createModelNames } from '@nereid/caller';
import { decodeRepositoryList, type ModelRecord, REPOSITORY_VALUE, type RepositoryList } from '@nereid/config';
import { ambiguousModel, type ErrorInfo, NereidError, NOT_EXPLICIT, thrownError } from '@nereid/protocol';
import type { Directory, Uploads } from '@nereid/transport';
import type { CodeUploader, CodeUploadRules } from './code-upload.ts';
import { checkOverride, type LoadParameter, loadOverride, putOverride } from './load-override.ts';
import type { ModelChanges } from './model-changes.ts';
import { type Result, resultOf } from './result.ts';

/** A model version, or with its name alone a folder whose model was never loaded. */
export interface IndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state?: string;
  /** Why it is in that state, where there is anything to say. */
  readonly reason?: string;
}

/** The model repository as clients see it (Triton's docs/protocol/extension_model_repository.md). */
export interface Repository {
  /**
   * Every folder of the repositories, by name, with all versions known of its model; with `readyOnly`
   * only versions that are ready. UNAVAILABLE while no coordinator has told what is there.
   */
  index(readyOnly: boolean): Promise<Result<readonly IndexEntry[]>>;
  /**
   * Resolves once the model is ready, or with why not: INVALID_ARG for a wrong parameter, UNAVAILABLE where the control
   * mode is not explicit.
   */
  load(model: string, parameters: readonly LoadParameter[], caller: CodeUploader): Promise<Result<undefined>>;
  /** Resolves once it takes no new request; also where there is no such model. UNAVAILABLE where the control mode is not explicit. */
  unload(model: string, dependents: boolean): Promise<Result<undefined>>;
}

export interface RepositoryParts {
  readonly directory: Pick<Directory<ModelRecord>, 'value' | 'record'>;
  /** Has the coordinator of this process look at its repositories now; absent where it is another process. */
  readonly refresh?: (() => Promise<void>) | undefined;
  readonly changes: Pick<ModelChanges, 'load' | 'unload'>;
  readonly uploads: Uploads;
  readonly codeRules: CodeUploadRules;
}

/** Of requests that name a repository (http_server.cc). */
export const REPOSITORY_NAME_REFUSED: ErrorInfo = {
  code: 'UNSUPPORTED',
  message: "'repository_name' specification is not supported",
  field: 'repository_name',
};

const NOT_TOLD: ErrorInfo = {
  code: 'UNAVAILABLE',
  message: 'no coordinator has told yet what the model repository holds; try again in a few seconds',
};

export function createRepository(parts: RepositoryParts): Repository {
  const { directory, refresh, changes, uploads, codeRules } = parts;
  let read: { readonly text: string; readonly list: RepositoryList | undefined } | undefined;

  const list = (): RepositoryList | undefined => {
    const value = directory.value(REPOSITORY_VALUE);
    if (value === undefined) return undefined;
    if (read?.text !== value.text) read = { text: value.text, list: decodeRepositoryList(value.text) };
    return read.list;
  };

  const entriesOf = (name: string, readyOnly: boolean): readonly IndexEntry[] => {
    const versions = directory.record(name)?.versions ?? [];
    // A model that was never loaded, or of which no version is known.
    if (versions.length === 0) return readyOnly ? [] : [{ name }];
    return versions
      .filter(({ state }) => !readyOnly || state === 'READY')
      .map(({ version, state, reason }) => ({ name, version, state, ...(reason === '' ? {} : { reason }) }));
  };

  const names = createModelNames(directory);
  /** What a client calls so. Throws where it could be several models. */
  const meantBy = (model: string): string => {
    const meant = names.resolve(model);
    if (typeof meant === 'number') throw thrownError(ambiguousModel(model, meant));
    return meant ?? model;
  };

  /** A namespace may have slashes in it. */
  const isPlaced = (name: string) =>
    list()?.folders.some((folder) => folder.from !== undefined && folder.name === name) === true;

  const throwUnlessExplicit = () => {
    const mode = list()?.controlMode;
    const error = mode === undefined ? NOT_TOLD : NOT_EXPLICIT;
    if (mode !== 'explicit') throw new NereidError(error.code, error.message);
  };

  return {
    index: (readyOnly) =>
      resultOf(async () => {
        await refresh?.();
        const told = list();
        if (told === undefined) throw new NereidError(NOT_TOLD.code, NOT_TOLD.message);
        return told.folders.flatMap(({ name, conflict }) =>
          conflict === null ? entriesOf(name, readyOnly) : [{ name, state: 'UNAVAILABLE', reason: conflict }],
        );
      }),
    load: (model, parameters, caller) =>
      resultOf(async () => {
        const override = loadOverride(parameters);
        throwUnlessExplicit();
        const name = meantBy(model);
        if (!isPlaced(name)) checkName(name);
        checkOverride(name, override, codeRules, caller);
        const put = await putOverride(uploads, override);
        try {
          throwFor(await changes.load(name, put.text));
        } finally {
          await put.done();
        }
        return undefined;
      }),
    unload: (model, dependents) =>
      resultOf(async () => {
        throwUnlessExplicit();
        throwFor(await changes.unload(meantBy(model), dependents));
        return undefined;
      }),
  };
}

function throwFor(error: ErrorInfo | undefined): void {
  if (error !== undefined) throw thrownError(error);
}

/** A name that leads elsewhere is no folder of a repository. */
function checkName(model: string): void {
  if (model !== '' && model !== '.' && model !== '..' && !/[/\\\0]/.test(model)) return;
  const message = `failed to load '${model}': a model's name is that of a folder, without '/'`;
  throw new NereidError('INVALID_ARG', message, { field: 'model_name' });
}
