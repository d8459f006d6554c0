/** How the process ends (docs/flags.md and `--help` show the same table). */
export const EXIT_CODE = {
  stopped: 0,
  failed: 1,
  usage: 2,
  redis: 3,
  repository: 4,
} as const;

export type ExitCode = (typeof EXIT_CODE)[keyof typeof EXIT_CODE];

export const EXIT_MEANINGS: Readonly<Record<keyof typeof EXIT_CODE, string>> = {
  stopped: 'stopped in order',
  failed: 'the start failed, or requests were still running when --exit-timeout-secs was over',
  usage: 'bad command line, variable or options file',
  redis: 'Redis is not usable',
  repository: 'a repository cannot be read, or a model failed to load (see --exit-on-error)',
};
