/** V8 copies texts that are shorter. */
const SLICED_MIN = 13;

/**
 * The same text in memory of its own. What was cut from a longer one keeps all of that: an id from a body of 60 KB would
 * hold 60 KB for as long as the id is remembered.
 */
export function ownText(text: string): string {
  // What is joined is copied once a part of it is cut off.
  return text.length < SLICED_MIN ? text : ` ${text}`.slice(1);
}
