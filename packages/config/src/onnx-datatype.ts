import { DataType } from './gen/model_config_pb.ts';

/** ONNX's TensorProto.DataType to the config's. */
const DATATYPES: ReadonlyMap<number, DataType> = new Map([
  [1, DataType.TYPE_FP32],
  [2, DataType.TYPE_UINT8],
  [3, DataType.TYPE_INT8],
  [4, DataType.TYPE_UINT16],
  [5, DataType.TYPE_INT16],
  [6, DataType.TYPE_INT32],
  [7, DataType.TYPE_INT64],
  [8, DataType.TYPE_STRING],
  [9, DataType.TYPE_BOOL],
  [10, DataType.TYPE_FP16],
  [11, DataType.TYPE_FP64],
  [12, DataType.TYPE_UINT32],
  [13, DataType.TYPE_UINT64],
  [16, DataType.TYPE_BF16],
]);

/** The config's datatype of an ONNX element type; undefined where it has none (complex, 8-bit floats, …). */
export function onnxDatatype(elementType: number): DataType | undefined {
  return DATATYPES.get(elementType);
}
