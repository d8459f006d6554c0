export interface MlpShape {
  readonly sizes: readonly number[];
  readonly seed: number;
}
export declare const MLPS: Readonly<Record<'mlp' | 'mlp_1024x8', MlpShape>>;
export declare function mlpModel(name: string, shape: MlpShape): Uint8Array;
export declare function mlpReference(shape: MlpShape, row: Float32Array): Float32Array;
