import { type Command, InvalidArgumentError } from 'commander';
import type { ExitCode } from './exit-code.ts';
import type { JobOptions, JobsListOptions } from './jobs.ts';
import { SERVER_URL } from './server-call.ts';
import type { WatchOptions } from './watch-job.ts';

/** What `nereid jobs …` runs. */
export interface JobCommands {
  readonly list: (options: JobsListOptions) => Promise<ExitCode>;
  readonly show: (options: WatchOptions) => Promise<ExitCode>;
  readonly retry: (options: JobOptions) => Promise<ExitCode>;
  readonly cancel: (options: JobOptions) => Promise<ExitCode>;
  readonly remove: (options: JobOptions) => Promise<ExitCode>;
  readonly watch: (options: WatchOptions) => Promise<ExitCode>;
}

const LIMIT_DEFAULT = 100;

export function addJobs(program: Command, run: JobCommands, end: (code: ExitCode) => void): void {
  const jobs = program.command('jobs').description('Look at jobs, and end or run them anew');
  const asked = (name: string) =>
    jobs.command(name).option('--url <url>', 'a server or gateway of the cluster', SERVER_URL);
  const ofOne = (name: string) => asked(name).argument('<id>', 'of the job, as its submission and ls tell it');
  asked('ls')
    .description('List jobs: their states, attempts, tags and errors')
    .option('--model <name>', 'of this model alone')
    .option('--state <state>', 'in this state alone: waiting, delayed, running, completed, failed, cancelled, expired')
    .option('--tag <tag>', 'with this tag alone')
    .option('--limit <n>', 'jobs at most', wholeNumber, LIMIT_DEFAULT)
    .option('--json', 'print JSON', false)
    .action(async (flags: JobsListOptions) => end(await run.list(flags)));
  ofOne('show')
    .description('Tell all that is known of a job')
    .option('--json', 'print JSON', false)
    .action(async (id: string, flags: Omit<WatchOptions, 'id'>) => end(await run.show({ ...flags, id })));
  ofOne('retry')
    .description('Run a failed or cancelled job anew')
    .action(async (id: string, flags: Omit<JobOptions, 'id'>) => end(await run.retry({ ...flags, id })));
  ofOne('cancel')
    .description('Cancel a job that is not over, in whatever state')
    .action(async (id: string, flags: Omit<JobOptions, 'id'>) => end(await run.cancel({ ...flags, id })));
  ofOne('rm')
    .description('Remove a job that is over, with its result')
    .action(async (id: string, flags: Omit<JobOptions, 'id'>) => end(await run.remove({ ...flags, id })));
  ofOne('watch')
    .description('Tell what becomes of a job until it is over; exit code 0 if it completed, else 1')
    .option('--json', 'print each event as a line of JSON', false)
    .action(async (id: string, flags: Omit<WatchOptions, 'id'>) => end(await run.watch({ ...flags, id })));
}

function wholeNumber(text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number from 1.');
}
