/** What becomes of a chunk that comes for a stream (docs/protocol.md R27): the rule, without effects. */
import type { ResponseMessage } from '@nereid/protocol';

/** How far a stream has come at its gateway. */
export interface StreamProgress {
  /** That of the first chunk, to which the stream keeps; undefined before it. */
  readonly execution: string | undefined;
  /** The chunk that comes next. */
  readonly next: number;
}

/** `drop`: of another execution, or had already. `gap`: one before it is lost, so the stream is over. */
export type ChunkVerdict = 'take' | 'drop' | 'gap';

/**
 * A request can have run twice, since it is sent again until its first chunk comes: a reader must
 * never get parts of both. What was lost is not waited for, since nobody sends a chunk again.
 */
export function chunkVerdict(
  progress: StreamProgress,
  { execution, chunk }: Pick<ResponseMessage, 'execution' | 'chunk'>,
): ChunkVerdict {
  if (progress.execution !== undefined && execution !== progress.execution) return 'drop';
  if (chunk < progress.next) return 'drop';
  return chunk === progress.next ? 'take' : 'gap';
}
