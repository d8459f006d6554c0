import type { Datatype } from '@nereid/protocol';
import { DataType } from './gen/model_config_pb.ts';

const DATATYPES: Readonly<Partial<Record<DataType, Datatype>>> = {
  [DataType.TYPE_BOOL]: 'BOOL',
  [DataType.TYPE_UINT8]: 'UINT8',
  [DataType.TYPE_UINT16]: 'UINT16',
  [DataType.TYPE_UINT32]: 'UINT32',
  [DataType.TYPE_UINT64]: 'UINT64',
  [DataType.TYPE_INT8]: 'INT8',
  [DataType.TYPE_INT16]: 'INT16',
  [DataType.TYPE_INT32]: 'INT32',
  [DataType.TYPE_INT64]: 'INT64',
  [DataType.TYPE_FP16]: 'FP16',
  [DataType.TYPE_FP32]: 'FP32',
  [DataType.TYPE_FP64]: 'FP64',
  [DataType.TYPE_STRING]: 'BYTES',
  [DataType.TYPE_BF16]: 'BF16',
};

/** The protocol's name of a config datatype (TYPE_STRING is BYTES); undefined for TYPE_INVALID. */
export function protocolDatatype(type: DataType): Datatype | undefined {
  return DATATYPES[type];
}
