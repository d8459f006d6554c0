import { NereidError } from '@nereid/protocol';

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

/** One rule, or a few that build on each other: throws INVALID_ARG for the first that is broken. */
export type ConfigCheck = () => void;
