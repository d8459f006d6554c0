import type { Plan } from './plan-http.mjs';

export declare function planGrpc(seed: number, index: number): Plan;
export declare function buildGrpc(plan: Plan): {
  readonly expect: string;
  readonly frames: readonly { readonly flag: number; readonly body: Buffer }[];
};
