import { WALL_MS_MAX } from '@nereid/protocol';

/**
 * RFC 3339, UTC; undefined, which JSON leaves out, where the time is not known, or none: producers may write anything.
 * Wall-clock milliseconds.
 */
export function timeText(wallMs: number | undefined): string | undefined {
  return wallMs !== undefined && Math.abs(wallMs) <= WALL_MS_MAX ? new Date(wallMs).toISOString() : undefined;
}
