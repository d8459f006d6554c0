export declare class SetupError extends Error {
  readonly exitCode: number;
  readonly detail: string;
}

export declare function runCommand(
  program: string,
  args: readonly string[],
  options?: { cwd?: string; env?: Record<string, string | undefined>; log?: string; limitMs?: number },
): Promise<{ code: number; output: string }>;

export declare function errorLine(output: string): string;

export declare function findProgram(name: string, path?: string): string | undefined;
