export interface HttpAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: Buffer;
}

export declare function judgeHttp(
  request: {
    readonly method: string;
    readonly path: string;
    readonly headers: readonly (readonly [name: string, value: string])[];
    readonly expect: 'valid' | 'refused' | 'any';
    readonly status?: number;
    readonly check?: (answer: HttpAnswer) => string | undefined;
  },
  delivery: { readonly answers: number; readonly unsure?: boolean; readonly leave?: boolean },
  result: { readonly answers: readonly HttpAnswer[]; readonly ended: boolean; readonly problem?: string },
): string | undefined;
