export interface Plan {
  readonly base: number;
  readonly steps: readonly { readonly stage: string; readonly name: string; readonly seed: number }[];
}

export declare function planHttp(seed: number, index: number): Plan;
export declare function buildHttp(
  plan: Plan,
  options: { readonly bodyBytesMax: number },
): {
  readonly request: { readonly expect: string };
  readonly delivery: { readonly pieces: readonly (Buffer | { readonly pauseMs: number })[] };
};
