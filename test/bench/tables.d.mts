import type { ComparedRatio, ReportCell } from './statistics.mjs';

export interface Report {
  readonly started: string;
  readonly generator: string;
  readonly machine: {
    readonly cpu: string;
    readonly cores: number;
    readonly memory_gib: number;
    readonly kernel: string;
  };
  readonly versions: Readonly<Record<string, string>>;
  readonly times: { readonly turns: number; readonly seconds: number };
  readonly notRun: Readonly<Record<string, string>>;
  readonly cells: readonly ReportCell[];
}

export declare function replaceBetween(text: string, inner: string): string;
export declare function tablesOf(report: Report, compared?: readonly ComparedRatio[]): string;
export declare function writeTables(report: Report, compared?: readonly ComparedRatio[]): void;
