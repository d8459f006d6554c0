export declare function magikaFeatures(content: Uint8Array): { features: Int32Array } | { answer: string };

export declare function bestLabel(
  scores: ArrayLike<number>,
  labels: readonly string[],
): { label: string; score: number };
