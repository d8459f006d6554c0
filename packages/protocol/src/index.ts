export {
  type BlobPlace,
  type BlobRef,
  type BlobTensor,
  type CarriedOutcome,
  type CarriedRequest,
  type CarriedTensor,
  isBlobTensor,
  isWholeOutcome,
  isWholeRequest,
} from './blob.ts';
export { bytesElements, ELEMENT_LENGTH_BYTES, encodeBytesElements } from './bytes-elements.ts';
export type { CachedMessage, CachedTime } from './cached-message.ts';
export { classifyOutputs } from './classify.ts';
export {
  type ComparedAnswer,
  compareStep,
  type DifferenceKind,
  type DifferenceValue,
  type StepDifference,
} from './compare-answers.ts';
export type { ShownValue, Tolerance } from './compare-elements.ts';
export { type ComparedRecordings, compareRecordings } from './compare-recordings.ts';
export type { ControlMessage } from './control-message.ts';
export { DATATYPE_BYTES, type Datatype } from './datatype.ts';
export { bytesOf, ELEMENT_ARRAYS, type ElementArray, INT64_MAX } from './element-array.ts';
export {
  ERROR_TABLE,
  type ErrorCode,
  type ErrorInfo,
  errorInfo,
  type FailureReason,
  httpStatus,
  NereidError,
  thrownError,
  thrownText,
} from './error.ts';
export { errorReasonsMarkdown, errorTableMarkdown } from './error-table.ts';
export {
  EXPLAINED_OTHERS_MAX,
  EXPLAINED_SLOW_US,
  type ExplainedBatch,
  type ExplainedCall,
  type ExplainedError,
  type ExplainedEvent,
  type ExplainedMessage,
  type ExplainedRequest,
  type ExplainedRun,
  type ExplainedState,
  type ExplainMessage,
  explained,
  keptError,
  keptId,
  keptText,
  type NotedEvent,
  noteEvent,
  toldEvents,
} from './explained.ts';
export {
  callJson,
  type ExplainedBatchJson,
  type ExplainedCallJson,
  type ExplainedJobJson,
  type ExplainedJson,
  type ExplainedRequestJson,
  type ExplainedRunJson,
  requestHead,
  runJson,
  sequenceIdJson,
} from './explained-json.ts';
export { decodeGenerateRequest, type GenerateInput } from './generate-request.ts';
export { encodeGenerateResponse } from './generate-response.ts';
export { bf16ToFp32, fp16ToFp32 } from './half.ts';
export {
  type InferRequest,
  type InferResponse,
  type InnerCall,
  type Outcome,
  orWhereItsSequenceIs,
  type Parameters,
  type ParameterValue,
  type ParentCall,
  REQUEST_DEFAULTS,
  versionAsked,
} from './infer.ts';
export {
  type InferInput,
  type InferResult,
  inferRequest,
  inferResult,
  type SequenceInput,
  type TensorInput,
  type TensorOutput,
} from './infer-values.ts';
export { blobRefs, blobTensors, type JobBlobs, type NamedTensor, totalBytes } from './job-blobs.ts';
export {
  type DecodedJob,
  decodeJobData,
  encodeJobData,
  isJobCancelled,
  type JobRespond,
  type JobSettings,
  jobTags,
  RESULT_TTL_S_MAX,
} from './job-data.ts';
export { isJsonObject, type JsonObject, plainParameters } from './job-json.ts';
export { isStreamProgress, readableOutputs } from './job-progress.ts';
export { decodeJobResult, encodeJobResult, failedReason, jsonOrBase64, parseFailedReason } from './job-result.ts';
export { jobStep } from './job-step.ts';
export { type JournalFile, type JournalFileLimits, readJournalFile, writeJournalFile } from './journal-file.ts';
export {
  decodeJournalFrame,
  encodeStepFrame,
  type JournalFrame,
} from './journal-frame.ts';
export { journalTestCase } from './journal-test-case.ts';
export type { JsonScalar } from './json-reader.ts';
export {
  firstKeeper,
  type KeptAction,
  type KeptMessage,
  keeperOf,
  type PutMessage,
  type PutTensor,
} from './kept-messages.ts';
export type { ListedSequence, SequencePlace } from './listed-sequence.ts';
export {
  type AnswerTimes,
  type BatchTiming,
  type Bind,
  type CancelMessage,
  compareEpochs,
  DEADLINE_SLACK_MS,
  type DescribedMessage,
  type DescribeMessage,
  type DoneEntry,
  type DoneMessage,
  type EchoMessage,
  type EndedSession,
  type EntryResult,
  type Epoch,
  type ExecuteEntry,
  type ExecuteMessage,
  type FreeMessage,
  type InferMessage,
  type InstanceDescription,
  type Message,
  type MessageKind,
  type MissingMessage,
  type MovedMessage,
  type OtherResponse,
  type OtherResponseKind,
  type ProcessId,
  type RefusedMessage,
  type ResponseMessage,
  type ResponseTimes,
  type RunningMessage,
  type RunningStream,
  type SlotDescription,
  type StaleMessage,
  type StepMarks,
  type StepOrder,
  type VersionDescription,
} from './message.ts';
export { decodeMessage, encodeMessage } from './message-codec.ts';
export { heldKey, type OfLoad, ofLoad } from './of-load.ts';
export { ownText } from './own-text.ts';
export { type GrpcRequestLimits, RESPONSES_COUNTED_MAX, type RequestLimits, WALL_MS_MAX } from './protocol-limits.ts';
export type {
  CancelJobMessage,
  ChangedMessage,
  ChangeMessage,
  CountedMessage,
  CountMessage,
  EvictMessage,
  ListedMessage,
  ListMessage,
  PlacedMessage,
  PlaceMessage,
} from './question-messages.ts';
export {
  RECORDING_STATES,
  type RecordedAnswer,
  type RecordedRequest,
  type RecordedStep,
  type RecordedTensor,
  type Recording,
  type RecordingKind,
  type RecordingState,
  type StepEffect,
} from './recorded.ts';
export { recordedBytes, recordedTensors, withRecordedTensors } from './recorded-tensors.ts';
export type { AnswerJson, RecordingJson, StepJson, TensorJson } from './recording-json.ts';
export { isRefused, refusedExecution } from './refused-execution.ts';
export {
  ANSWER_REFUSED,
  ambiguousModel,
  answerExpired,
  bodyTooLarge,
  CANCELLED,
  CORRELATION_ID_BYTES_MAX,
  CORRELATION_ID_TOO_LONG,
  dueStep,
  JOB_CANCELLED,
  JOB_TOO_LARGE,
  modelNotFound,
  NOT_EXPLICIT,
  noVersionReady,
  noVersions,
  QUEUE_FULL,
  QUEUE_TIMEOUT,
  REDIS_FULL,
  SEQUENCE_TIMEOUT,
  STEP_NEEDS_ID,
  STOPPING,
  sequenceLost,
  sequenceNeedsId,
  sequenceNeedsStart,
  sequenceOneRow,
  stepGap,
  stillUnloading,
  versionNotFound,
  versionNotReady,
  withRequestId,
} from './request-error.ts';
export { isAnswerFor, JOB_STEPS, senderOf } from './request-id.ts';
export { sha256 } from './sha256.ts';
export type {
  BatchStatistics,
  CloseStatistics,
  DurationStatistics,
  InferenceStatistics,
  LevelStatistics,
  QueueStatistics,
  ResponseStatistics,
  VersionStatistics,
} from './statistics.ts';
export { elementCount, fixedByteSize, type Tensor } from './tensor.ts';
export { type TensorValues, tensorFromValues, tensorValues, typedView } from './tensor-values.ts';
export { traceContext, traceId } from './trace-context.ts';
export { type GrpcInferDocument, readGrpcInferDocument } from './v2-grpc-document.ts';
export { type DecodedGrpcRequest, decodeGrpcInferRequest, type GrpcDecodeOptions } from './v2-grpc-request.ts';
export { encodeGrpcResponse, encodeGrpcStreamResponse } from './v2-grpc-response.ts';
export { wrongKind } from './v2-member.ts';
export { isJsonArray, type JsonMember, readMembers } from './v2-members.ts';
export type { RequestedOutput } from './v2-outputs.ts';
export { unsigned } from './v2-parameters.ts';
export { type DecodedRequest, type DecodeOptions, decodeInferRequest } from './v2-request.ts';
export { type EncodedResponse, encodeInferResponse, type OutputFormat } from './v2-response.ts';
export { type SharedMemoryPlace, unknownRegion } from './v2-shared-memory.ts';
export {
  evicted,
  isEvicted,
  isNoHolder,
  isNotHeld,
  NO_HOLDER,
  NOT_HELD,
  UNLOADED,
  type VersionState,
} from './version-state.ts';
export { webhookUrl } from './webhook-url.ts';
