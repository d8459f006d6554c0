export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** What turns.mjs gives, as far as it is summed up. */
export interface Turn {
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly rps: number;
  readonly other_cpu: number;
  readonly errors: number;
  readonly checked: number;
  readonly disturbed: boolean;
  readonly repeated: number;
  readonly cpu_us: Readonly<Record<string, number>>;
  readonly commands?: {
    readonly all: number;
    readonly called: number;
    readonly by_name: Readonly<Record<string, number>>;
  };
}

export interface Summary {
  readonly p50_ms: Spread;
  readonly p99_ms: Spread;
  readonly rps: Spread;
  readonly others_cpu: Spread;
  readonly errors: number;
  readonly checked: number;
  readonly disturbed: number;
  readonly repeated: number;
  readonly cpu_us: Readonly<Record<string, number>>;
  readonly commands?: Turn['commands'];
}

export interface ReportCell {
  readonly row: string;
  readonly title: string;
  readonly jobs: boolean;
  readonly encoding: string;
  readonly concurrency: number;
  readonly columns: Readonly<Record<string, { readonly summary: Summary; readonly turns: readonly Turn[] }>>;
}

export interface ComparedRatio {
  readonly cell: string;
  readonly figure: string;
  readonly of: string;
  readonly to: string;
  readonly first: number;
  readonly second: number;
  readonly stable: boolean;
}

export declare function median(values: readonly number[]): number;
export declare function spread(values: readonly number[]): Spread;
export declare function turnOrder(count: number, turn: number): readonly number[];
export declare function medianRange(
  values: readonly number[],
): { readonly min: number; readonly max: number } | undefined;
export declare function total(byName: Readonly<Record<string, number>>): number;
export declare function summary(turns: readonly Turn[]): Summary;
export declare const STABLE_RATIO_MAX: number;
export declare function cellName(cell: Pick<ReportCell, 'row' | 'encoding' | 'concurrency'>): string;
export declare function compareReports(
  first: { readonly cells: readonly ReportCell[] },
  second: { readonly cells: readonly ReportCell[] },
): readonly ComparedRatio[];
