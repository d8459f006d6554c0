import { createLazyCaller, type LazyCaller, openCaller } from '@nereid/caller';
import { LIMITS } from '@nereid/config';
import type { EnsembleCallsParts } from './ensemble-calls.ts';

/** By which a coordinator calls models for lines of batches: one caller, from the first batch until the coordinator's end. */
export type BulkCalls = LazyCaller;

export function createBulkCalls(parts: EnsembleCallsParts): BulkCalls {
  const { clock, log, transport, directory, responses, timing } = parts;
  const { requests_pending_max, stream_unread_chunks_max, stream_unread_bytes_max } = LIMITS;
  const limits = { requests_pending_max, stream_unread_chunks_max, stream_unread_bytes_max };
  return createLazyCaller(() => openCaller({ clock, log, transport, directory, responses, timing, limits }));
}
