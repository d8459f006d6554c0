/** Options of the log. Flags, meanings and defaults are Triton's (command_line_parser.cc) but where they say so. */
import { z } from 'zod';
import { EVERY_ROLE, type FlagMeta, flagMetas } from './flag-meta.ts';

const logging: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'Logging', roles: EVERY_ROLE };

const INT32_MAX = 2_147_483_647;

export const loggingOptions = {
  logVerbose: z
    .int()
    .min(0)
    .max(INT32_MAX)
    .default(0)
    .register(flagMetas, {
      ...logging,
      description: 'Verbose log lines: 0 none, 1 the changes of state of requests, 2 and more everything.',
    }),
  logInfo: z
    .boolean()
    .default(true)
    .register(flagMetas, { ...logging, description: 'Write log lines of level info.' }),
  logWarning: z
    .boolean()
    .default(true)
    .register(flagMetas, { ...logging, description: 'Write log lines of level warning.' }),
  logError: z
    .boolean()
    .default(true)
    .register(flagMetas, { ...logging, description: 'Write log lines of level error.' }),
  logFormat: z
    .enum(['default', 'ISO8601'])
    .default('default')
    .register(flagMetas, {
      ...logging,
      description: 'How a text line begins: `I1129 11:15:47.733910 ` or `2026-11-29T11:15:47Z I `.',
    }),
  logFile: z
    .string()
    .default('')
    .register(flagMetas, {
      ...logging,
      form: '<file>',
      description:
        'Append the log to this file. Empty: info to standard output, warnings and errors to standard error.',
    }),
  logLevel: z
    .enum(['error', 'warn', 'info', 'debug', 'trace'])
    .default('info')
    .register(flagMetas, {
      ...logging,
      ours: true,
      description: 'Write no line below this level. debug is --log-verbose=1, trace is --log-verbose=2.',
    }),
  logOutput: z
    .enum(['text', 'json'])
    .default('text')
    .register(flagMetas, {
      ...logging,
      ours: true,
      description: "text: lines in Triton's format. json: one JSON object a line.",
    }),
};
