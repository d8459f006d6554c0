export declare const MODEL_INFER: string;
export declare function inferRequestBytes(request: {
  readonly model: string;
  readonly inputs: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly values: Float32Array | Int32Array | BigInt64Array;
  }[];
}): Buffer<ArrayBuffer>;
export declare function inferResponseTensors(message: Buffer): ReadonlyMap<string, ArrayLike<number | bigint>>;
