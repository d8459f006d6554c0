import { NereidError } from '@nereid/protocol';
import type { ModelConfig } from './gen/model_config_pb.ts';

/**
 * Refuses a config for a field, which is named by its path from the config down, as `input[0].dims`
 * or `parameters["nereid.pin"]`: where it stands in the file is looked up by that.
 */
export function refuseField(path: string, text: string): never {
  throw new NereidError('INVALID_ARG', text, { field: path });
}

/** The path of an entry of a map. */
export function mapEntry(path: string, key: string): string {
  return `${path}[${JSON.stringify(key)}]`;
}

/** The path of the input or output of that name. */
export function tensorPath(config: ModelConfig, side: 'input' | 'output', name: string): string {
  const index = config[side].findIndex((tensor) => tensor.name === name);
  return index === -1 ? side : `${side}[${index}]`;
}

/** One rule, or a few that build on each other: throws INVALID_ARG for the first that is broken. */
export type ConfigCheck = () => void;
