import type { BenchRow, RivalRequest } from './rivals.mjs';

export declare function v2Request(row: BenchRow): RivalRequest;
