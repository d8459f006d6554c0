/** What stands in values that the cluster shares, as this role reads them. */

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
