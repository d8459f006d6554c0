export { type CommandLine, runCommandLine } from './command-line.ts';
export { EXIT_CODE, type ExitCode } from './exit-code.ts';
export { type ServeProcess, serve } from './serve.ts';
