import type { ErrorInfo, InferMessage, ProcessId, ResponseMessage } from '@nereid/protocol';

/** The answer of an owner in place of a worker. */
export function refusedAnswer(
  owner: ProcessId,
  { model, id }: Pick<InferMessage, 'model' | 'id'>,
  error: ErrorInfo,
): ResponseMessage {
  return {
    kind: 'response',
    model,
    id,
    outcome: { ok: false, error },
    // No execution has this name, so a gateway never takes it for a chunk of one.
    execution: `${owner}/refused`,
    chunk: 0,
    last: true,
  };
}
