export declare function randomValues(seed: number, count: number): Float32Array<ArrayBuffer>;
