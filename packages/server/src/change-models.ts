/** Loads and unloads of the process that has the server, by way of its gateway. */
import { LIMITS, type ModelRecord } from '@nereid/config';
import type { Repository } from '@nereid/gateway';
import { modelNotFound, NereidError, stillUnloading, thrownError } from '@nereid/protocol';
import type { ProcessParts } from './process-parts.ts';

/** What a load takes in place of a model's files. */
export interface ModelOverride {
  /** A ModelConfig as JSON, or an object of it. */
  readonly config: string | Readonly<Record<string, unknown>>;
  /** By path in the model's folder, such as `1/model.onnx`: all that the model then is made of. */
  readonly files?: Readonly<Record<string, Uint8Array>>;
}

const OWN = { isLocal: true, key: undefined, isServer: true } as const;

type Shared = Pick<ProcessParts['shared'], 'clock' | 'directory'>;

export async function loadModel(
  repository: Repository,
  { shared }: { readonly shared: Shared },
  name: string,
  override: ModelOverride | undefined,
): Promise<ModelRecord> {
  const answer = await repository.load(checkedName(name), parametersOf(override), OWN);
  if (!answer.ok) throw thrownError(answer.error);
  const record = shared.directory.record(name);
  if (record === undefined) throw thrownError(modelNotFound(name));
  return record;
}

/** Resolves when it is gone; throws UNAVAILABLE where requests keep it for longer than LIMITS.unload_wait_ms. */
export async function unloadModel(
  repository: Repository,
  { shared: { clock, directory } }: { readonly shared: Shared },
  name: string,
): Promise<void> {
  const answer = await repository.unload(checkedName(name), false);
  if (!answer.ok) throw thrownError(answer.error);
  const isGone = () => directory.record(name)?.versions.every(({ state }) => state === 'UNAVAILABLE') !== false;
  if (isGone()) return;
  await new Promise<void>((resolve, reject) => {
    const over = () => {
      unwatch();
      timer.cancel();
    };
    const unwatch = directory.watch((change) => {
      if (change.type !== 'record' || change.model !== name || !isGone()) return;
      over();
      resolve();
    });
    const timer = clock.at(clock.nowUs() + LIMITS.unload_wait_ms * 1000, () => {
      over();
      reject(thrownError(stillUnloading(name, LIMITS.unload_wait_ms)));
    });
  });
}

function parametersOf(override: ModelOverride | undefined) {
  if (override === undefined) return [];
  const { config, files = {} } = override ?? {};
  const text = typeof config === 'object' ? JSON.stringify(config) : config;
  if (typeof text !== 'string') throw wrong('override.config', 'a ModelConfig, as an object or as JSON');
  const parameters: { readonly name: string; readonly value: string | Uint8Array }[] = [
    { name: 'config', value: text },
  ];
  for (const [path, value] of Object.entries(files)) {
    if (!(value instanceof Uint8Array)) throw wrong(`override.files['${path}']`, 'a Uint8Array');
    parameters.push({ name: `file:${path}`, value });
  }
  return parameters;
}

function checkedName(name: unknown): string {
  if (typeof name === 'string') return name;
  throw wrong('name', 'a text');
}

function wrong(field: string, wanted: string): NereidError {
  return new NereidError('INVALID_ARG', `${field} must be ${wanted}`, { field });
}
