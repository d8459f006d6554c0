import {
  type ErrorInfo,
  type InferMessage,
  type ProcessId,
  type ResponseMessage,
  refusedExecution,
} from '@nereid/protocol';

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
    execution: refusedExecution(owner),
    chunk: 0,
    last: true,
  };
}
