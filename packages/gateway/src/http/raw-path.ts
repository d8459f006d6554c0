/**
 * A path that the router leaves as it was sent: Triton never decodes escapes (`simp%6Ce` is a model
 * of that name), while the router does, so each is escaped once more.
 */
export function rawPath(url: string): string {
  return url.includes('%') ? url.replaceAll('%', '%25') : url;
}
