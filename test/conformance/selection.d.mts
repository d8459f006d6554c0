/** Which recorded cases run. `setUps` has the same names as `names`, by the set-up of the server. */
export interface Selection {
  readonly names: readonly string[];
  readonly setUps: ReadonlyMap<string, readonly string[]>;
  readonly leftOut: ReadonlyMap<string, readonly string[]>;
}

export declare const CONFORMANCE: string;
export declare const PORTS: readonly string[];
export declare function selectCases(globs?: readonly string[], also?: readonly string[]): Selection;
export declare function selectModels(setUp?: string): readonly string[];
export declare function becomes(setUp: string): 'ready' | 'live';
export declare function setUpFlags(setUp: string): readonly string[];
