export interface StageResult {
  readonly passed: number;
  readonly failed: number;
  readonly failures: readonly string[];
  readonly notes: readonly string[];
}

export declare function readVitestReport(report: {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}): StageResult;

export declare function vitestFilter(filter: string | undefined): string[];
