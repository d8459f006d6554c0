export declare const LARGE_ELEMENTS: number;
export declare function makeBenchModels(folder: string): readonly string[];
