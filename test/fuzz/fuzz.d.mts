import type { Mode } from '../deployment.mjs';

/** A request that was not answered as it must be. */
export interface FuzzFailure {
  /** The command that sends it again. */
  readonly replay: string;
  readonly problem: string;
  readonly mutations: readonly string[];
}

export interface FuzzResult {
  readonly failures: readonly FuzzFailure[];
  /** What is wrong besides: processes, what is left, settings, logs. */
  readonly problems: readonly string[];
  readonly sent: number;
  /** How often each status came, by door. */
  readonly answered: Readonly<Record<string, number>>;
}

export declare function runFuzz(options: {
  readonly mode: Mode;
  readonly requests: number;
  readonly seed: number;
  readonly only?: 'http' | 'grpc';
  readonly log?: (line: string) => void;
}): Promise<FuzzResult>;
