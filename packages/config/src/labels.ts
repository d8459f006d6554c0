/** Labels of workers, and those that models ask for: `k=v` with commas between them. */

export type Labels = Readonly<Record<string, string>>;

export const LABELS_FORM = 'k=v with commas between them, of letters, digits and _ . / : -';

const LABEL = /^([\w./:-]{1,128})=([\w./:-]{0,128})$/;
const LABELS_MAX = 64;

/** Labels by their keys; undefined for a text that holds none, or one key twice. */
export function readLabelPairs(text: string): Labels | undefined {
  const parts = text.split(',').map((part) => part.trim());
  const pairs = new Map<string, string>();
  for (const part of parts) {
    const [, key, value = ''] = LABEL.exec(part) ?? [];
    if (key === undefined || pairs.has(key)) return undefined;
    pairs.set(key, value);
  }
  return pairs.size > LABELS_MAX ? undefined : Object.fromEntries(pairs);
}

/** As `readLabelPairs` reads it. */
export function labelsText(labels: Labels): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',');
}

/** What a worker lacks of the labels that a model asks for, as a text; '' where it carries them all. */
export function missingLabels(wanted: Labels, carried: Labels): string {
  return labelsText(Object.fromEntries(Object.entries(wanted).filter(([key, value]) => carried[key] !== value)));
}
