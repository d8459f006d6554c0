import { ERROR_TABLE, errorInfo } from '@nereid/protocol';
import type { Clock, Log } from '@nereid/runtime';
import { loadStrategy } from './batching-strategy.ts';
import type { OwnedModel, OwnedVersion } from './owned-model.ts';

export interface StrategyParts {
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Loads the batching strategy of each version that has one, from the model's folder. The reason, as
 * states carry it, where one of them cannot be loaded; none is open then.
 */
export async function openStrategies(
  model: OwnedModel,
  directory: string,
  { clock, log }: StrategyParts,
): Promise<string | undefined> {
  const { name, config, strategies = {}, warning } = model.source;
  if (warning !== undefined) log.warn({ model: name }, warning);
  try {
    for (const version of model.versions) {
      const file = strategies[version.version];
      if (file === undefined) continue;
      const source = { model: name, version: version.version, directory, file, config };
      version.strategy = await loadStrategy(source, clock, log);
    }
    return undefined;
  } catch (error) {
    closeStrategies(model.versions);
    const { code, message } = errorInfo(error);
    return `${ERROR_TABLE[code].label}: ${message}`;
  }
}

/** Nothing more is asked of them. Idempotent. */
export function closeStrategies(versions: readonly OwnedVersion[]): void {
  for (const version of versions) {
    version.strategy?.close();
    version.strategy = undefined;
  }
}
