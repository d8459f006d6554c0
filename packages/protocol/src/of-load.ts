/** Loads of a model, as messages name them. */

/**
 * Each load of a model has a number, which rises: workers may hold a version from several loads, of which one serves
 * and the others end what they have accepted (docs/protocol.md R42).
 */
export interface OfLoad {
  /** Absent for 0, the first. */
  readonly load?: number;
}

/** Names a version of one load among all that a worker holds of a model. */
export function heldKey(version: string, load = 0): string {
  return load === 0 ? version : `${version}#${load}`;
}

/** The member of a message that says its load. */
export function ofLoad(load = 0): OfLoad {
  return load === 0 ? FIRST_LOAD : { load };
}

const FIRST_LOAD: OfLoad = {};
