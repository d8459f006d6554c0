/** How the process ends. */
export const EXIT_CODE = {
  stopped: 0,
  failed: 1,
  usage: 2,
  redis: 3,
  repository: 4,
} as const;

/** How `nereid replay run` and `diff` end. */
export const REPLAY_EXIT_CODE = {
  equal: EXIT_CODE.stopped,
  differs: EXIT_CODE.failed,
  notRun: EXIT_CODE.usage,
} as const;

export type ExitCode = (typeof EXIT_CODE)[keyof typeof EXIT_CODE];

/** The table in `--help` and docs/flags.md: status and what it means. */
export const EXIT_MEANINGS: readonly (readonly [status: number, meaning: string])[] = [
  [EXIT_CODE.stopped, 'stopped in order, or did what it was asked; a replay is equal to its recording'],
  [
    EXIT_CODE.failed,
    'the start failed, requests still ran when --exit-timeout-secs was over, a server that was asked refused or did not answer, or a replay differs from its recording',
  ],
  [EXIT_CODE.usage, 'bad command line, variable or options file; or a replay could not run'],
  [
    EXIT_CODE.redis,
    'the Redis cannot be used: not reached, login or permission refused, too old, it may evict keys, or it cannot keep jobs as --jobs-fsync asks',
  ],
  [EXIT_CODE.repository, 'a repository cannot be read, or a model failed to load (see --exit-on-error)'],
  // 128 and SIGKILL's number, as a shell reports it.
  [137, 'as 1, but a model could not be interrupted, so the process killed itself'],
];
