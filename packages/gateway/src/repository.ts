import { decodeRepositoryList, type ModelRecord, REPOSITORY_VALUE, type RepositoryList } from '@nereid/config';
import { type ErrorInfo, NereidError, NOT_EXPLICIT } from '@nereid/protocol';
import type { Directory } from '@nereid/transport';
import { type Result, resultOf } from './result.ts';

/** A model version, or with its name alone a folder whose model was never loaded. */
export interface IndexEntry {
  readonly name: string;
  readonly version?: string;
  readonly state?: string;
  /** Why it is in that state, where there is anything to say. */
  readonly reason?: string;
}

/** What a load may be given: `config` as text, `file:<path>` as bytes. */
export interface LoadParameter {
  readonly name: string;
  readonly value: string | Uint8Array;
}

/** The model repository as clients see it (Triton's docs/protocol/extension_model_repository.md). */
export interface Repository {
  /**
   * Every folder of the repositories, by name, with all versions known of its model; with `readyOnly`
   * only versions that are ready. UNAVAILABLE while no coordinator has told what is there.
   */
  index(readyOnly: boolean): Promise<Result<readonly IndexEntry[]>>;
  /** Refused: INVALID_ARG for a wrong parameter, UNAVAILABLE where the control mode is not explicit, else UNSUPPORTED. */
  load(model: string, parameters: readonly LoadParameter[]): ErrorInfo;
  /** Refused: UNAVAILABLE where the control mode is not explicit, else UNSUPPORTED. */
  unload(model: string): ErrorInfo;
}

export interface RepositoryParts {
  readonly directory: Pick<Directory<ModelRecord>, 'value' | 'record'>;
  /** Has the coordinator of this process look at its repositories now; absent where it is another process. */
  readonly refresh?: (() => Promise<void>) | undefined;
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

const FILE_PREFIX = 'file:';

export function createRepository({ directory, refresh }: RepositoryParts): Repository {
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

  const refusal = (what: string): ErrorInfo => {
    const mode = list()?.controlMode;
    if (mode === undefined) return NOT_TOLD;
    return mode === 'explicit' ? { code: 'UNSUPPORTED', message: what } : NOT_EXPLICIT;
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
    load(model, parameters) {
      const unknown = parameters.find(({ name }) => name !== 'config' && !isFileParameter(name));
      if (unknown !== undefined) {
        const field = `parameters.${unknown.name}`;
        return { code: 'INVALID_ARG', message: `unrecognized load parameter '${unknown.name}'.`, field };
      }
      return refusal(
        `this version does not load models over the network: name '${model}' by --load-model at the coordinator's start`,
      );
    },
    unload: (model) => refusal(`this version does not unload models over the network, so '${model}' stays loaded`),
  };
}

/** True of parameters that are files, whose values are bytes. */
export function isFileParameter(name: string): boolean {
  return name.startsWith(FILE_PREFIX);
}
