import type { ChildProcess } from 'node:child_process';

/** How a process ended: its exit code (null where a signal ended it) and all that it wrote. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

/** A program as a child process, in an empty working folder. */
export interface Command {
  readonly process: ChildProcess;
  readonly ended: Promise<Ending>;
  output(): string;
  /** Waits until what it has written matches; gives all that. Throws where it ends before. */
  waitFor(text: RegExp): Promise<string>;
  /** Sends the signal once and waits for the end; past 20 s the process is killed and the call throws. */
  stop(signal?: NodeJS.Signals): Promise<Ending>;
}

export declare function runCli(args: readonly string[], environment?: Readonly<Record<string, string>>): Command;
export declare function runScript(
  script: string,
  args: readonly string[],
  environment?: Readonly<Record<string, string>>,
): Command;
