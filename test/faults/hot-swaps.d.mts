import type { Mode } from '../deployment.mjs';

export declare function runHotSwaps(options: {
  readonly mode: Mode;
  readonly swaps: number;
  readonly perSecond: number;
  readonly warm?: number;
}): Promise<{
  readonly answered: number;
  readonly problems: readonly string[];
  readonly resident: readonly Readonly<Record<string, number>>[];
  readonly seconds: number;
}>;
