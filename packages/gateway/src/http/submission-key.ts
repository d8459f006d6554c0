import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { NereidError } from '@nereid/protocol';
import type { JobWishes, SubmissionKey } from '../jobs.ts';

const HEADER = 'Idempotency-Key';
const KEY = /^[\x20-\x7e]{1,255}$/;

/**
 * The client's key of a submission and a hash of all that it is for: its body as it is read, the version, and what its
 * headers wish. Undefined where none is given; throws INVALID_ARG for one that is none.
 */
export function submissionKey(
  { headers }: Pick<IncomingMessage, 'headers'>,
  body: Uint8Array,
  version: string,
  wishes: JobWishes,
): SubmissionKey | undefined {
  const text = headers[HEADER.toLowerCase()];
  if (text === undefined) return undefined;
  if (typeof text !== 'string' || !KEY.test(text)) {
    throw new NereidError('INVALID_ARG', `${HEADER} must have 1 to 255 printable ASCII characters`, { field: HEADER });
  }
  const asked = JSON.stringify([version, headers['inference-header-content-length'] ?? null, wishes]);
  const requestHash = createHash('sha256').update(asked).update('\n').update(body).digest('base64url');
  return { text, requestHash };
}
