/** Recordings and their steps as clients see them. */
import {
  type AnswerJson,
  ELEMENT_ARRAYS,
  type ErrorInfo,
  jsonOrBase64,
  type Parameters,
  plainParameters,
  type RecordedAnswer,
  type RecordedStep,
  type RecordedTensor,
  type Recording,
  type RecordingJson,
  type StepJson,
  sequenceIdJson,
  type Tensor,
  type TensorJson,
} from '@nereid/protocol';

/** `applied`: how many of its steps took effect, where that is told. */
export function recordingJson(recording: Recording, applied?: number): RecordingJson {
  return {
    id: recording.id,
    model_name: recording.model,
    model_version: recording.version,
    kind: recording.kind,
    sequence_id: isNone(recording.correlationId) ? undefined : sequenceIdJson(recording.correlationId),
    request_id: textOrNone(recording.requestId),
    state: recording.state,
    steps: recording.steps,
    steps_applied: applied,
    bytes: recording.bytes,
    started_at: timeOf(recording.startedMs),
    last_at: timeOf(recording.lastMs),
    worker: recording.worker,
    config_sha256: recording.configSha256,
    content_hash: recording.contentHash,
    imported: recording.imported,
  };
}

/** `withData`: with the data of its tensors that are kept. */
export function stepJson({ request, ...step }: RecordedStep, withData: boolean): StepJson {
  const { waitNs, inputNs, inferNs, outputNs } = step.timing;
  const tensors = (of: readonly RecordedTensor[]) => of.map((tensor) => tensorJson(tensor, withData));
  return {
    step: step.step,
    token: step.token,
    request_id: textOrNone(request.id),
    sequence_id: isNone(request.correlationId) ? undefined : sequenceIdJson(request.correlationId),
    sequence_start: request.sequenceStart || undefined,
    sequence_end: request.sequenceEnd || undefined,
    sequence_step: request.sequenceStep,
    priority: request.priority === 0n ? undefined : sequenceIdJson(request.priority),
    timeout_us: request.timeoutUs === 0n ? undefined : sequenceIdJson(request.timeoutUs),
    parameters: parametersJson(request.parameters),
    inputs: tensors(request.inputs),
    requested_outputs: request.requestedOutputs.length === 0 ? undefined : request.requestedOutputs,
    model_version: step.modelVersion,
    config_sha256: step.configSha256,
    content_hash: step.contentHash,
    worker: step.worker,
    instance: step.instance,
    slot: step.slot < 0 ? undefined : step.slot,
    batch_size: step.batchSize,
    received_at: timeOf(step.receivedMs),
    timing: { wait_ns: waitNs, input_ns: inputNs, infer_ns: inferNs, output_ns: outputNs },
    effect: step.effect,
    answers: step.answers.map((answer) => answerJson(answer, tensors)),
  };
}

function answerJson(
  answer: RecordedAnswer,
  tensors: (of: readonly RecordedTensor[]) => readonly TensorJson[],
): AnswerJson {
  if (!answer.ok) return { error: errorJson(answer.error) };
  return { parameters: parametersJson(answer.parameters), outputs: tensors(answer.outputs) };
}

export function errorJson({ code, message, field, reason }: ErrorInfo) {
  return { code, message, field, reason };
}

/** With data: as the data of jobs have tensors, which `replace` of a replay reads too; -0, which JSON.stringify has not, as text. */
function tensorJson(tensor: RecordedTensor, withData: boolean): TensorJson {
  const { name, datatype, shape, data, digest, redacted } = tensor;
  const about = { name, datatype, shape, byte_size: data?.byteLength, digest, redacted };
  return withData && data !== undefined ? { ...about, ...dataJson({ ...tensor, data }) } : about;
}

function dataJson(tensor: Tensor): object {
  const { name, datatype, shape, data } = tensor;
  // What an imported file claims to be elements need not be.
  if (datatype !== 'BYTES' && data.byteLength % ELEMENT_ARRAYS[datatype].BYTES_PER_ELEMENT !== 0)
    return { name, datatype, shape, b64: Buffer.from(data).toString('base64') };
  const json = jsonOrBase64(tensor) as { readonly data?: readonly unknown[] };
  const isFloat = datatype === 'FP32' || datatype === 'FP64';
  return isFloat ? { ...json, data: json.data?.map((value) => (Object.is(value, -0) ? '-0.0' : value)) } : json;
}

function parametersJson(parameters: Parameters): AnswerJson['parameters'] {
  return Object.keys(parameters).length === 0 ? undefined : plainParameters(parameters);
}

/** Of a time that was checked where it came as a file, and is a worker's own else. */
function timeOf(wallMs: number): string {
  return new Date(wallMs).toISOString();
}

function isNone(id: bigint | string): boolean {
  return id === 0n || id === '';
}

function textOrNone(text: string): string | undefined {
  return text === '' ? undefined : text;
}
