/** The states in the repository's index (extension_model_repository.md; model_lifecycle.h). */
export type VersionState = 'READY' | 'UNAVAILABLE' | 'LOADING' | 'UNLOADING' | 'UNKNOWN';

/** The reason of a version that was unloaded on purpose, in Triton's index. */
export const UNLOADED = 'unloaded';

/**
 * The reason of a version, UNAVAILABLE at a worker that was told to load it and does not take its model; what the
 * worker lacks for it may follow.
 */
export const NOT_HELD = 'not held here';

/** What follows NOT_HELD where the model was held and went for others, with why. */
const EVICTED = `${NOT_HELD}: made room for `;

export const evicted = (why: string): string => EVICTED + why;
export const isEvicted = (reason: string): boolean => reason.startsWith(EVICTED);

export const isNotHeld = (reason: string): boolean => reason.startsWith(NOT_HELD);

/**
 * The reason of a version in its model's record while no worker takes it; it is loaded once one joins that does. What
 * one of them lacks for it may follow.
 */
export const NO_HOLDER = 'Unavailable: no worker holds the model';

export const isNoHolder = (reason: string): boolean => reason.startsWith(NO_HOLDER);
