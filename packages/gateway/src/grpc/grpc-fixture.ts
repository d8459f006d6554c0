/** A gRPC server over a gateway fixture, and the library's own client to talk to it; only tests import this. */
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
  toJson,
} from '@bufbuild/protobuf';
import {
  type CallOptions,
  type ChannelCredentials,
  Client,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import { doorFixture } from '../door-fixture.ts';
import { type FixtureOptions, type GatewayFixture, gatewayFixture } from '../gateway-fixture.ts';
import { createGrpcServer, type GrpcServerOptions } from './server.ts';
import type { GrpcTransport } from './transport.ts';
import { pathOf } from './unary.ts';

export interface GrpcFixture extends GatewayFixture {
  readonly grpc: GrpcTransport;
  /** `127.0.0.1:port`. */
  readonly url: string;
  /** A client of its own, closed with the fixture. */
  client(options?: ClientOptions): Client;
  /** Stops the server and closes the clients. */
  close(deadlineMs?: number): Promise<void>;
}

interface ClientOptions {
  readonly credentials?: ChannelCredentials;
  readonly channel?: Readonly<Record<string, string | number>>;
}

/** Every client has a connection of its own, without gRPC's default bound of a message. */
const CHANNEL = { 'grpc.max_receive_message_length': -1, 'grpc.use_local_subchannel_pool': 1 };

export async function grpcFixture(
  options: FixtureOptions & { readonly grpc?: Partial<GrpcServerOptions> } = {},
): Promise<GrpcFixture> {
  const fixture = await gatewayFixture(options);
  const grpc = createGrpcServer({
    ...doorFixture(fixture),
    ...options.grpc,
  });
  const { url } = await grpc.listen();
  const clients: Client[] = [];
  return {
    ...fixture,
    grpc,
    url,
    client({ credentials: given = credentials.createInsecure(), channel } = {}) {
      const client = new Client(url, given, { ...CHANNEL, ...channel });
      clients.push(client);
      return client;
    },
    async close(deadlineMs = 0) {
      for (const client of clients) client.close();
      await grpc.close(deadlineMs);
    },
  };
}

export interface AskOptions extends CallOptions {
  readonly metadata?: Readonly<Record<string, string>>;
}

/** How a call ended: its message, or its status with the trailer `nereid-error`. */
export type Asked<T> =
  | { readonly code: 0; readonly message: T }
  | { readonly code: number; readonly details: string; readonly detail: string | undefined };

interface AskedMethod<I extends DescMessage, O extends DescMessage> extends Pick<DescMethod, 'name' | 'parent'> {
  readonly input: I;
  readonly output: O;
}

/** One unary call by the generated messages. */
export function ask<I extends DescMessage, O extends DescMessage>(
  client: Client,
  method: AskedMethod<I, O>,
  request: MessageInitShape<I>,
  options: AskOptions = {},
): Promise<Asked<MessageShape<O>>> {
  return askBytes(client, pathOf(method), toBinary(method.input, create(method.input, request)), options).then(
    (asked) => ('message' in asked ? { code: 0, message: fromBinary(method.output, asked.message) } : asked),
  );
}

/** Unary calls whose answers are read as protobuf's JSON, with the names of the .proto. */
export function askJson(client: Client) {
  return async <I extends DescMessage, O extends DescMessage>(
    method: AskedMethod<I, O>,
    request: MessageInitShape<I>,
  ): Promise<Asked<unknown>> => {
    const asked = await ask(client, method, request);
    if (!('message' in asked)) return asked;
    return { code: 0, message: toJson(method.output, asked.message, { useProtoFieldName: true }) };
  };
}

/** One unary call with any bytes. */
export function askBytes(
  client: Client,
  path: string,
  request: Uint8Array,
  { metadata = {}, ...options }: AskOptions = {},
): Promise<Asked<Uint8Array>> {
  const sent = new Metadata();
  for (const [name, value] of Object.entries(metadata)) sent.set(name, value);
  return new Promise((resolve) => {
    const answered = (failure: ServiceError | null, message?: Uint8Array) => {
      if (failure === null && message !== undefined) {
        resolve({ code: 0, message });
        return;
      }
      const { code = -1, details = '', metadata: trailers } = failure ?? {};
      resolve({ code, details, detail: trailers?.get('nereid-error')[0]?.toString() });
    };
    const pass = (bytes: Uint8Array) => Buffer.from(bytes);
    client.makeUnaryRequest<Uint8Array, Uint8Array>(path, pass, pass, request, sent, options, answered);
  });
}
