export type {
  Alias,
  AliasDetail,
  AliasDifference,
  Aliases,
  AliasShadow,
  AliasVersion,
} from './aliases.ts';
export type { BatchFile, BatchLine } from './batch-file.ts';
export type { BatchResult, ResultsOptions } from './batch-results.ts';
export type { Batch, Batches, BatchOptions, BatchPage, BatchState } from './batches.ts';
export type { BlobRef, Blobs, PutOptions } from './blobs.ts';
export { type Client, createClient, type ModelMetadata, type TensorMetadata } from './client.ts';
export type { Datatype, FixedDatatype, TypedArray, TypedArrays } from './datatype.ts';
export type {
  DeadLetter,
  DeadLetterDetail,
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetters,
  ReplayInput,
} from './dead-letters.ts';
export { type ErrorCode, NereidError } from './error.ts';
export type { FlatValues, GenerateAnswer, GenerateInput } from './generate.ts';
export { bf16ToFp32, fp16ToFp32 } from './half.ts';
export type { CallOptions, HttpOptions } from './http.ts';
export type { InferInput, InferResult, SequenceInput, WantedOutput } from './infer.ts';
export type { Job, JobState, JobWishes } from './job.ts';
export type { JobDataOptions, JobInput } from './job-data.ts';
export type { EndEvent, QueueEventsLike, QueueLike } from './job-outcomes.ts';
export type { JobFilter, JobPage, JobQueue, Jobs, SubmitOptions, WatchOptions } from './jobs.ts';
export type {
  Comparison,
  Journal,
  RecordingFile,
  RecordingFilter,
  RecordingPage,
  StepsOptions,
} from './journal.ts';
export type { Parameters, ParameterValue } from './json.ts';
export type { LoadOptions, ModelState, UnloadOptions } from './models.ts';
export {
  type BullOptions,
  createProducer,
  type ProducedJob,
  type ProducedSequence,
  type ProduceOptions,
  type Producer,
  type ProducerOptions,
} from './producer.ts';
export type { RecordedAnswer, RecordedStep, RecordedTensor, Recording, RecordingState } from './recording.ts';
export type { Difference, ReplayedStep, ReplayOptions, ReplayVerdict, Tolerance } from './replay.ts';
export type { RetryOptions } from './retry.ts';
export type { Sequence, SequenceOptions, StepInput } from './sequence.ts';
export { type TensorInput, type TensorOutput, type TensorValues, texts } from './tensor.ts';
export type { JobEvent } from './watch-job.ts';
