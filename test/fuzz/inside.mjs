/** Stacks, files of the code, folders of the machine. */
const INSIDE =
  /\n\s+at |node:internal|\.[mc]?[jt]s:\d+|file:\/\/|(?:^|[\s'"(])\/(?:root|home|tmp|usr|var|opt|proc|work)\//;

/** Whether an error's text tells what only the server's own code and machine know. */
export function tellsInside(text) {
  return INSIDE.test(text);
}
