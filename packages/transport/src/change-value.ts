/** Changing values that a cluster shares. */
import { NereidError } from '@nereid/protocol';
import type { Directory } from './directory.ts';

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
