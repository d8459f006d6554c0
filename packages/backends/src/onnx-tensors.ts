/** Tensors between the v2 form and onnxruntime's. */
import {
  bytesElements,
  bytesOf,
  type Datatype,
  type ElementArray,
  elementCount,
  encodeBytesElements,
  NereidError,
  type Tensor,
  typedView,
} from '@nereid/protocol';
import { Tensor as OrtTensor } from 'onnxruntime-node';

type OrtType = OrtTensor.Type;

/** onnxruntime-node refuses a larger one inside the run; only a tensor without elements can have it. */
const DIMENSION_MAX = 2 ** 32 - 1;

/** BF16 has no counterpart in onnxruntime-node. */
const ORT_TYPES: Readonly<Partial<Record<Datatype, OrtType>>> = {
  BOOL: 'bool',
  UINT8: 'uint8',
  UINT16: 'uint16',
  UINT32: 'uint32',
  UINT64: 'uint64',
  INT8: 'int8',
  INT16: 'int16',
  INT32: 'int32',
  INT64: 'int64',
  FP16: 'float16',
  FP32: 'float32',
  FP64: 'float64',
  BYTES: 'string',
};

const DATATYPES = new Map(Object.entries(ORT_TYPES).map(([datatype, type]) => [type, datatype as Datatype]));

/** A BOM is part of the text. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The protocol's datatype of one of onnxruntime's element types. */
export function datatypeOf(type: string): Datatype | undefined {
  return DATATYPES.get(type as OrtType);
}

/**
 * A feed in the model's shape. Numeric data are viewed, not copied, where they are aligned; the
 * buffer must stay as it is until the run is over.
 * Throws INVALID_ARG naming the input for text that onnxruntime would change (it takes strings as
 * UTF-8 and cuts them at NUL), and for a dimension that its binding does not take.
 */
export function feedOf(input: Tensor, shape: readonly number[]): OrtTensor {
  const { datatype } = input;
  if (shape.some((dimension) => dimension > DIMENSION_MAX)) {
    throw new NereidError(
      'INVALID_ARG',
      `input '${input.name}' has the shape [${shape.join(',')}]; the engine takes dimensions up to ${DIMENSION_MAX}`,
      { field: input.name },
    );
  }
  if (datatype === 'BYTES') return new OrtTensor('string', textElements(input), shape);
  const type = ORT_TYPES[datatype];
  if (type === undefined) throw new NereidError('UNSUPPORTED', `input '${input.name}' has datatype ${datatype}`);
  // onnxruntime's types know the array of each type name; the table above pairs them.
  return new OrtTensor(type as 'float32', typedView(input) as Float32Array, shape);
}

function textElements(input: Tensor): string[] {
  return bytesElements(input.data, input.name).map((element, index) => {
    let text: string;
    try {
      text = UTF8.decode(element);
    } catch {
      throw new NereidError(
        'INVALID_ARG',
        `element ${index} of input '${input.name}' is not UTF-8; ONNX strings must be`,
        { field: input.name },
      );
    }
    if (text.includes('\0')) {
      throw new NereidError(
        'INVALID_ARG',
        `element ${index} of input '${input.name}' has a NUL byte; ONNX strings cannot`,
        { field: input.name },
      );
    }
    return text;
  });
}

/** An output of a run in the v2 form, with the shape that the caller gives. */
export function outputOf(name: string, shape: readonly number[], value: OrtTensor): Tensor {
  const datatype = datatypeOf(value.type);
  if (datatype === undefined) throw new NereidError('INTERNAL', `output '${name}' has onnxruntime type ${value.type}`);
  if (datatype === 'BYTES') {
    const texts = value.data as string[];
    // An empty string tensor may come without its elements.
    const count = elementCount(shape) ?? 0;
    return { name, datatype, shape, data: encodeBytesElements(texts.slice(0, count)) };
  }
  return { name, datatype, shape, data: bytesOf(value.data as ElementArray) };
}
