export { bytesElements, encodeBytesElements } from './bytes-elements.ts';
export { DATATYPE_BYTES, type Datatype, isDatatype } from './datatype.ts';
export type { ElementArray } from './element-array.ts';
export {
  ERROR_TABLE,
  type ErrorCode,
  type ErrorInfo,
  errorInfo,
  type FailureReason,
  httpStatus,
  NereidError,
} from './error.ts';
export { errorTableMarkdown } from './error-table.ts';
export { bf16ToFp32, fp16ToFp32, fp32ToBf16, fp32ToFp16 } from './half.ts';
export type { InferRequest, InferResponse, Outcome, Parameters, ParameterValue } from './infer.ts';
export {
  type BatchTiming,
  type CancelMessage,
  type ControlMessage,
  compareEpochs,
  type DescribedMessage,
  type DescribeMessage,
  type DoneEntry,
  type DoneMessage,
  type EntryResult,
  type Epoch,
  type ExecuteEntry,
  type ExecuteMessage,
  type FreeMessage,
  type InferMessage,
  type InstanceDescription,
  type Message,
  type MessageKind,
  type MovedMessage,
  type ProcessId,
  type RefusedMessage,
  type ResponseMessage,
  type StaleMessage,
  type VersionDescription,
  type VersionState,
} from './message.ts';
export { decodeMessage, encodeMessage, FRAME_VERSION } from './message-codec.ts';
export type { RequestLimits } from './protocol-limits.ts';
export { elementCount, fixedByteSize, type Tensor } from './tensor.ts';
export { type TensorValues, tensorFromValues, tensorValues, typedView } from './tensor-values.ts';
export type { RequestedOutput } from './v2-outputs.ts';
export { type DecodedRequest, type DecodeOptions, decodeInferRequest } from './v2-request.ts';
export { type EncodedResponse, encodeInferResponse, type OutputFormat } from './v2-response.ts';
