/** Values that the cluster shares, as this role reads and changes them. */
import { NereidError } from '@nereid/protocol';
import type { Directory } from '@nereid/transport';

export type SharedValues = Pick<Directory<unknown>, 'value' | 'setValue' | 'watch'>;

/** Others may change a value so often between reading and setting it before this process gives up. */
const ATTEMPTS_MAX = 8;

/**
 * Sets a value to what `change` makes of it, so that nothing that others change meanwhile is lost:
 * where they did, it is made anew. Does nothing where `change` leaves the text as it is. What it throws
 * is thrown on; throws UNAVAILABLE where the directory does not answer, or never lets it.
 */
export async function changeValue(
  values: SharedValues,
  name: string,
  change: (text: string | undefined) => string,
): Promise<void> {
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const known = values.value(name);
    const text = change(known?.text);
    if (text === known?.text) return;
    if ((await values.setValue(name, text, known?.version ?? 0)) !== undefined) return;
  }
  throw new NereidError('UNAVAILABLE', `'${name}' is being changed by others all the time; try again`);
}

/** The members of the JSON object that a value is; none where it is no such text, as of a later build. */
export function valueMembers(text: string | undefined): Readonly<Record<string, unknown>> {
  if (text === undefined) return {};
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Something as an object; an empty one for anything else. */
export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
