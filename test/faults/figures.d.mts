import type { EndedRequest, Fault, RoundsResult, Victim } from './rounds.mjs';

export declare function unexcused(result: Pick<RoundsResult, 'faults' | 'requests'>): readonly EndedRequest[];
export declare function gapsMs(faults: readonly Fault[], role: Victim): readonly number[];
export declare function medianGapMs(faults: readonly Fault[], role: Victim): number;
