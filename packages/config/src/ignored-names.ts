/**
 * Whether a file or folder within a model's folder counts for nothing, by its name: dot files, and what editors write
 * for a moment beside what they save (`*~`, `*.swp`, and `4913`, by which vim finds out whether it may write there).
 */
export function isIgnoredName(name: string): boolean {
  return name.startsWith('.') || name.endsWith('~') || name.endsWith('.swp') || name === '4913';
}
