/** True for texts that one of the globs matches whole: `*` any run of characters, `?` any one. */
export function globMatcher(globs: readonly string[]): (text: string) => boolean {
  const patterns = globs.map((glob) => {
    const escaped = glob
      .replace(/[.+^${}()|[\]\\]/g, '\\$&')
      .replaceAll('*', '.*')
      .replaceAll('?', '.');
    return new RegExp(`^${escaped}$`, 's');
  });
  return (text) => patterns.some((pattern) => pattern.test(text));
}
