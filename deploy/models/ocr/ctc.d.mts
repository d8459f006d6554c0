export declare function decodeLine(
  probabilities: Float32Array,
  characters: readonly string[],
): { readonly text: string; readonly score: number };
export declare function readCharacters(text: string): string[];
