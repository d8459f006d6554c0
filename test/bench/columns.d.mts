import type { PlannedColumn } from './plan.mjs';

export declare const COLUMNS: readonly PlannedColumn[];
export declare function isDefault(column: PlannedColumn): boolean;
export declare function columnTitle(name: string): string;
