export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

export interface Frame {
  readonly name: string;
  readonly place: string;
  readonly self: number;
  readonly total: number;
  readonly children: readonly Frame[];
}

export declare function profileTree(profile: CpuProfile): Frame;
export declare function hottest(
  tree: Frame,
  count: number,
): readonly { readonly name: string; readonly place: string; readonly self: number }[];
export declare function flameGraph(title: string, tree: Frame): string;
