/** A gRPC client as anybody would write it for Node: `@grpc/grpc-js`, and the messages read from the .proto files. */
import { join } from 'node:path';
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync, type MethodDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import { ROOT } from '../../deploy/setup/checkout.mjs';

export type GrpcParameter =
  | { readonly bool_param: boolean }
  | { readonly int64_param: number }
  | { readonly string_param: string }
  | { readonly double_param: number }
  | { readonly uint64_param: number };
type Parameters = Readonly<Record<string, GrpcParameter>>;

export interface GrpcInput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly parameters?: Parameters;
  readonly contents?: Readonly<Record<string, readonly unknown[]>>;
}

/** A ModelInferRequest. */
export interface GrpcRequest {
  readonly model_name: string;
  readonly model_version?: string;
  readonly id?: string;
  readonly parameters?: Parameters;
  readonly inputs: readonly GrpcInput[];
  readonly outputs?: readonly { readonly name: string; readonly parameters?: Parameters }[];
  readonly raw_input_contents?: readonly Uint8Array[];
}

/** A ModelInferResponse; fields without a value are absent. */
export interface GrpcResponse {
  readonly model_name?: string;
  readonly model_version?: string;
  readonly id?: string;
  readonly parameters?: Parameters;
  readonly outputs?: readonly (GrpcInput & { readonly contents?: object })[];
  readonly raw_output_contents?: readonly Buffer[];
}

export interface GrpcStreamResponse {
  readonly error_message?: string;
  readonly infer_response?: GrpcResponse;
}

export interface GrpcEnding {
  /** Of `status` in `@grpc/grpc-js`. */
  readonly code: number;
  readonly details: string;
}

export interface GrpcAnswer extends GrpcEnding {
  readonly response: GrpcResponse;
}

export interface GrpcOptions {
  readonly deadlineMs?: number;
  readonly metadata?: Readonly<Record<string, string>>;
}

export interface RunningInfer {
  readonly answer: Promise<GrpcAnswer>;
  cancel(): void;
}

export interface GrpcStream {
  send(request: GrpcRequest): void;
  /** The next answer; undefined once the stream has ended. */
  next(): Promise<GrpcStreamResponse | undefined>;
  /** All answers still to come. */
  rest(): Promise<GrpcStreamResponse[]>;
  halfClose(): void;
  cancel(): void;
  readonly ended: Promise<GrpcEnding>;
}

export interface GrpcClient {
  infer(request: GrpcRequest, options?: GrpcOptions): Promise<GrpcAnswer>;
  /** As `infer`, with a way to cancel it. */
  start(request: GrpcRequest, options?: GrpcOptions): RunningInfer;
  stream(options?: GrpcOptions): GrpcStream;
  close(): void;
}

const PROTO = join(ROOT, 'packages/gateway/proto/grpc_service.proto');
const definition = loadSync(PROTO, {
  keepCase: true,
  longs: Number,
  includeDirs: [join(ROOT, 'packages/config/proto'), join(ROOT, 'packages/gateway/proto')],
});
const service = definition['inference.GRPCInferenceService'] as ServiceDefinition;

function methodOf(name: string): MethodDefinition<object, object> {
  const method = service[name];
  if (method === undefined) throw new Error(`no method ${name}`);
  return method;
}

const MODEL_INFER = methodOf('ModelInfer');
const MODEL_STREAM_INFER = methodOf('ModelStreamInfer');

const callOptions = ({ deadlineMs }: GrpcOptions): CallOptions =>
  deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };

function metadataOf({ metadata = {} }: GrpcOptions): Metadata {
  const made = new Metadata();
  for (const [name, value] of Object.entries(metadata)) made.set(name, value);
  return made;
}

/** `address`: host and port. */
export function grpcClient(address: string, security: ChannelCredentials = credentials.createInsecure()): GrpcClient {
  const client = new Client(address, security, { 'grpc.max_receive_message_length': -1 });
  const start: GrpcClient['start'] = (request, options = {}) => {
    let cancel = () => {};
    const answer = new Promise<GrpcAnswer>((resolve) => {
      const call = client.makeUnaryRequest(
        MODEL_INFER.path,
        MODEL_INFER.requestSerialize,
        MODEL_INFER.responseDeserialize,
        request,
        metadataOf(options),
        callOptions(options),
        (error: ServiceError | null, response?: GrpcResponse) =>
          resolve({ code: error?.code ?? 0, details: error?.details ?? '', response: response ?? {} }),
      );
      cancel = () => call.cancel();
    });
    return { answer, cancel: () => cancel() };
  };
  return {
    infer: (request, options) => start(request, options).answer,
    start,
    stream: (options = {}) =>
      streamOf(
        client.makeBidiStreamRequest(
          MODEL_STREAM_INFER.path,
          MODEL_STREAM_INFER.requestSerialize,
          MODEL_STREAM_INFER.responseDeserialize,
          metadataOf(options),
          callOptions(options),
        ),
      ),
    close: () => client.close(),
  };
}

function streamOf(call: ClientDuplexStream<object, object>): GrpcStream {
  const ended = new Promise<GrpcEnding>((resolve) => {
    call.on('status', ({ code, details }) => resolve({ code, details }));
  });
  // The status says the same.
  call.on('error', () => {});
  const answers = call[Symbol.asyncIterator]();
  const next = async (): Promise<GrpcStreamResponse | undefined> => {
    try {
      const step = await answers.next();
      return step.done === true ? undefined : step.value;
    } catch {
      return undefined;
    }
  };
  return {
    send: (request) => void call.write(request),
    next,
    async rest() {
      const all: GrpcStreamResponse[] = [];
      for (let answer = await next(); answer !== undefined; answer = await next()) all.push(answer);
      return all;
    },
    halfClose: () => call.end(),
    cancel: () => call.cancel(),
    ended,
  };
}

/** A request to one of the models of model-folder.ts: one input VALUE, INT32 [1]. */
export function valueRequest(model: string, value: number, more: Partial<GrpcRequest> = {}): GrpcRequest {
  return {
    model_name: model,
    inputs: [{ name: 'VALUE', datatype: 'INT32', shape: [1] }],
    raw_input_contents: [int32(value)],
    ...more,
  };
}

export function int32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [index, value] of values.entries()) bytes.writeInt32LE(value, 4 * index);
  return bytes;
}

export function fp32(...values: readonly number[]): Buffer {
  return Buffer.from(Float32Array.from(values).buffer);
}

/** The one INT32 of an answer's first output. */
export function valueIn(response: GrpcResponse | undefined): number | undefined {
  return response?.raw_output_contents?.[0]?.readInt32LE(0);
}
