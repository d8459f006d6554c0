/** RFC 3339, UTC; undefined, which JSON leaves out, where the time is not known. Wall-clock milliseconds. */
export function timeText(wallMs: number | undefined): string | undefined {
  return wallMs === undefined ? undefined : new Date(wallMs).toISOString();
}
