/**
 * Calls back once what this turn of the event loop brought has been handled: what is put off until then goes together.
 * `setImmediate` is one.
 */
export type NextTurn = (callback: () => void) => void;
