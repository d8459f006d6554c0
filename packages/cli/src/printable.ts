/** How a progress line begins anew, at the start of a text alone. */
const LINE_START = '\\r\\u001b\\[K';
/** A terminal obeys these; a line feed and a tab are text. */
const UNPRINTED = new RegExp(
  `^${LINE_START}|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u202a-\\u202e\\u2066-\\u2069]`,
  'g',
);

/** With its line ends told: else an id could go on as another line of a table. */
export function inOneLine(text: string): string {
  return text.replaceAll('\n', '\\n');
}

/** The text with what a terminal would obey as JSON escapes: ids, names and errors are what any client has sent. */
export function printable(text: string): string {
  return text.replace(UNPRINTED, (found) =>
    found.length > 1 ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
