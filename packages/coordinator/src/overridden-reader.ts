import { encodeOverride } from '@nereid/config';
import type { ModelReader } from '@nereid/repository';
import type { DesiredModels } from './desired-models.ts';

/** The repositories, but for models that the cluster wants from what clients have sent. */
export function overriddenReader(reader: ModelReader, desired: Pick<DesiredModels, 'current'>): ModelReader {
  const overrideOf = (name: string) => {
    const override = desired.current()?.get(name)?.override;
    return override === undefined ? undefined : encodeOverride(override);
  };
  return {
    ...reader,
    read: (name) => reader.read(name, overrideOf(name)),
    directory: (name) => reader.directory(name, overrideOf(name)),
    versions: (name) => reader.versions(name, overrideOf(name)),
  };
}
