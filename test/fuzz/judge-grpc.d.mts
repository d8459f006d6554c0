export declare function judgeGrpc(
  call: {
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    /** Its model fails each execution. */
    readonly fails?: boolean;
    /** It breaks gRPC's own rules. */
    readonly misframed?: boolean;
    readonly expect: 'valid' | 'refused' | 'any';
    readonly check?: (messages: readonly Buffer[]) => string | undefined;
  },
  result: {
    readonly code: number | undefined;
    readonly text: string;
    readonly messages: readonly Buffer[];
    readonly headers: Readonly<Record<string, unknown>>;
    readonly problem?: string;
  },
): string | undefined;
