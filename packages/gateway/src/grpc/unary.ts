import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf';
import { NereidError, thrownText } from '@nereid/protocol';
import type { Result } from '../result.ts';
import type { CallInfo, UnaryCall } from './transport.ts';

/** A method of the generated services with one request and one answer. */
interface UnaryMethod<I extends DescMessage, O extends DescMessage> extends Pick<DescMethod, 'name' | 'parent'> {
  readonly methodKind: 'unary';
  readonly input: I;
  readonly output: O;
}

/** `/package.Service/Method`. */
export function pathOf(method: Pick<DescMethod, 'name' | 'parent'>): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/**
 * A unary call whose messages the generated code decodes and encodes. `handle` gets the request and
 * gives the answer or why not; what it throws is answered as an error too.
 */
export function unary<I extends DescMessage, O extends DescMessage>(
  method: UnaryMethod<I, O>,
  handle: (
    request: MessageShape<I>,
    info: CallInfo,
  ) => Result<MessageInitShape<O>> | Promise<Result<MessageInitShape<O>>>,
): UnaryCall {
  const encoded = (result: Result<MessageInitShape<O>>): Result<Uint8Array> =>
    result.ok ? { ok: true, value: toBinary(method.output, create(method.output, result.value)) } : result;
  return {
    kind: 'unary',
    path: pathOf(method),
    compressed: false,
    handle(bytes, info) {
      const result = handle(decoded(method.input, bytes), info);
      return result instanceof Promise ? result.then(encoded) : encoded(result);
    },
  };
}

function decoded<I extends DescMessage>(schema: I, bytes: Uint8Array): MessageShape<I> {
  try {
    return fromBinary(schema, bytes, { readUnknownFields: false });
  } catch (cause) {
    const text = `the request message cannot be parsed: ${thrownText(cause)}`;
    throw new NereidError('INVALID_ARG', text, { field: 'message', cause });
  }
}
