export interface ProtobufField {
  readonly number: number;
  readonly wire: number;
  readonly value: bigint | Uint8Array;
}
export declare function readFields(bytes: Uint8Array): ProtobufField[];
export declare function writeFields(fields: readonly ProtobufField[]): Buffer;
export declare function integerField(number: number, value: number | bigint): ProtobufField;
export declare function stringField(number: number, text: string): ProtobufField;
export declare function packedField(number: number, values: readonly (number | bigint)[]): ProtobufField;
