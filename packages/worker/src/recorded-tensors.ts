/** Requests and answers as they are recorded: what is to be redacted has no data, and what is large digests. */
import {
  type Outcome,
  type RecordedAnswer,
  type RecordedRequest,
  type RecordedTensor,
  sha256,
  type Tensor,
} from '@nereid/protocol';
import type { WholeEntry } from './batch-answers.ts';

/** With copies of its tensors: whoever the part was sent to may do with it what he likes. */
export function keptAnswer(answer: RecordedAnswer): RecordedAnswer {
  if (!answer.ok) return answer;
  const outputs = answer.outputs.map((tensor) =>
    tensor.data === undefined ? tensor : { ...tensor, data: new Uint8Array(tensor.data) },
  );
  return { ...answer, outputs };
}

/** Tensors as they are recorded: those to be redacted without their data, and those of large answers as digests. */
export function createRecordedTensors(redact: ReadonlySet<string>, outputBytesMax: number) {
  const recorded = ({ name, datatype, shape, data }: Tensor): RecordedTensor =>
    redact.has(name) ? { name, datatype, shape, redacted: true } : { name, datatype, shape, data };
  const digested = ({ name, datatype, shape, data }: Tensor): RecordedTensor =>
    redact.has(name) ? { name, datatype, shape, redacted: true } : { name, datatype, shape, digest: sha256(data) };
  return {
    request({ request, step }: WholeEntry): RecordedRequest {
      const { id, correlationId, shownId, sequenceStart, sequenceEnd } = request;
      return {
        id,
        correlationId: shownId ?? correlationId,
        sequenceStart,
        sequenceEnd,
        ...(step === undefined || step.number < 0 ? {} : { sequenceStep: step.number }),
        priority: request.priority,
        timeoutUs: request.timeoutUs,
        parameters: request.parameters,
        inputs: request.inputs.map(recorded),
        requestedOutputs: request.requestedOutputs,
      };
    },
    answer(outcome: Outcome): RecordedAnswer {
      if (!outcome.ok) return outcome;
      const { outputs, parameters } = outcome.response;
      const bytes = outputs.reduce((sum, { data }) => sum + data.byteLength, 0);
      return { ok: true, parameters, outputs: outputs.map(bytes > outputBytesMax ? digested : recorded) };
    },
  };
}
