import type { ControlMode, ModelRecord } from '@nereid/config';
import { isNoHolder, NereidError } from '@nereid/protocol';
import type { ModelReader } from '@nereid/repository';

/**
 * Names of the models to load at start (docs/user_guide/model_management.md): all with
 * `none` and `poll`, those asked for with `explicit`, where `*` stands for all and only alone (server.cc).
 */
export async function startupModels(
  options: { readonly controlMode: ControlMode; readonly loadModels?: readonly string[] },
  reader: ModelReader,
): Promise<readonly string[]> {
  const all = async () => (await reader.folders()).map(({ name }) => name);
  if (options.controlMode !== 'explicit') return all();
  const names = [...new Set(options.loadModels ?? [])];
  if (!names.includes('*')) return names;
  if (names.length > 1) {
    const text = "Wildcard model name '*' must be the ONLY startup model if specified at all.";
    throw new NereidError('INVALID_ARG', text, { field: '--load-model' });
  }
  return all();
}

/**
 * Names of the models that some coordinator is to own where the control mode names them. With `poll` these are also
 * models that went from the repository while they had no owner: whoever takes them unloads them.
 */
export function wantedModels(
  mode: ControlMode,
  named: readonly string[],
  records: readonly ModelRecord[],
): readonly string[] {
  if (mode !== 'poll') return named;
  return [...new Set([...named, ...records.filter(isWanted).map(({ name }) => name)])];
}

function isWanted({ versions, awaitsModels }: ModelRecord): boolean {
  return awaitsModels === true || versions.some(({ state, reason }) => state === 'READY' || isNoHolder(reason));
}
