export interface PlannedColumn {
  readonly name: string;
  serves(row: { readonly model: string; readonly encoding: string; readonly jobs: boolean }): boolean;
}

export interface PlannedCell {
  readonly row: { readonly name: string; readonly title: string; readonly model: string; readonly jobs?: boolean };
  readonly encoding: 'json' | 'binary' | 'grpc';
  readonly concurrency: number;
  readonly raw?: readonly number[];
}

export interface Plan {
  readonly times: {
    readonly turns: number;
    readonly seconds: number;
    readonly warmUp: number;
    readonly firstWarmUp: number;
    readonly nextWarmUp: number;
  };
  readonly raw: boolean;
  readonly columns: readonly PlannedColumn[];
  readonly cells: readonly PlannedCell[];
}

export declare function plan(wishes: {
  readonly quick: boolean;
  readonly only: readonly string[];
  readonly concurrencies: readonly number[];
  readonly turns?: number | undefined;
  readonly seconds?: number | undefined;
  readonly columns: readonly PlannedColumn[];
  readonly isDefault: (column: PlannedColumn) => boolean;
}): Plan;
export declare function takesPart(column: PlannedColumn, cell: PlannedCell): boolean;
export declare function estimateSeconds(of: Plan): number;
