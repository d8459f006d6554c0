import {
  DESIRED_VALUE,
  type DesiredModel,
  decodeDesiredState,
  encodeDesiredState,
  type RepositorySetup,
  setupDifference,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { changeValue, type SharedValues } from '@nereid/transport';

/** What the cluster is to serve, as all its coordinators read and change it. */
export interface DesiredModels {
  /** By name; undefined while nothing is said, and with another control mode than `explicit`. */
  current(): ReadonlyMap<string, DesiredModel> | undefined;
  /**
   * The first coordinator of a cluster says what it serves; of `atStart` with `explicit`. Any other follows. Throws
   * INVALID_ARG with both values where the cluster uses its repositories otherwise.
   */
  begin(atStart: readonly string[]): Promise<void>;
  /** `change` gets what is there and may be asked again; undefined leaves it as it is. */
  change(change: (models: Map<string, DesiredModel>) => void): Promise<void>;
  /** Calls back after each change. Returns how to stop. */
  watch(listener: () => void): () => void;
}

const NOT_SAID = 'no coordinator has said yet what this cluster is to serve; try again in a few seconds';

export function createDesiredModels(values: SharedValues, setup: RepositorySetup): DesiredModels {
  let read:
    | { readonly text: string | undefined; readonly models: ReadonlyMap<string, DesiredModel> | undefined }
    | undefined;

  const begun = (text: string | undefined, atStart: readonly string[]): string => {
    const cluster = decodeDesiredState(text) ?? setup;
    const difference = setupDifference(cluster, setup);
    if (difference !== undefined) throw new NereidError('INVALID_ARG', difference);
    if (text !== undefined && (setup.controlMode !== 'explicit' || 'models' in cluster)) return text;
    const models = Object.fromEntries(atStart.map((name) => [name, {}]));
    return encodeDesiredState({ ...setup, ...(setup.controlMode === 'explicit' ? { models } : {}) });
  };

  return {
    current() {
      const text = values.value(DESIRED_VALUE)?.text;
      if (read === undefined || read.text !== text) read = { text, models: modelsIn(text) };
      return read.models;
    },
    begin: (atStart) => changeValue(values, DESIRED_VALUE, (text) => begun(text, atStart)),
    change: (change) =>
      changeValue(values, DESIRED_VALUE, (text) => {
        const models = modelsIn(text);
        if (models === undefined) throw new NereidError('UNAVAILABLE', NOT_SAID);
        change(models);
        return encodeDesiredState({ ...setup, models: Object.fromEntries(models) });
      }),
    watch: (listener) =>
      values.watch((change) => {
        if (change.type === 'value' && change.name === DESIRED_VALUE) listener();
      }),
  };
}

function modelsIn(text: string | undefined): Map<string, DesiredModel> | undefined {
  const models = decodeDesiredState(text)?.models;
  return models === undefined ? undefined : new Map(Object.entries(models));
}
