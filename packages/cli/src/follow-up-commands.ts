import type { Command } from 'commander';
import type { LetterOptions, LettersListOptions, ReplayOptions } from './dead-letters.ts';
import type { ExitCode } from './exit-code.ts';
import { SERVER_URL } from './server-call.ts';
import type { WebhookOptions } from './webhooks.ts';

/** What `nereid deadletters …` and `nereid webhooks …` run. */
export interface FollowUpCommands {
  readonly listLetters: (options: LettersListOptions) => Promise<ExitCode>;
  readonly showLetter: (options: LetterOptions) => Promise<ExitCode>;
  readonly replayLetter: (options: ReplayOptions) => Promise<ExitCode>;
  readonly removeLetter: (options: LetterOptions) => Promise<ExitCode>;
  readonly showWebhook: (options: WebhookOptions) => Promise<ExitCode>;
  readonly resendWebhook: (options: WebhookOptions) => Promise<ExitCode>;
}

type End = (code: ExitCode) => void;

export function addFollowUps(program: Command, run: FollowUpCommands, end: End): void {
  addDeadLetters(program, run, end);
  addWebhooks(program, run, end);
}

function addDeadLetters(program: Command, run: FollowUpCommands, end: End): void {
  const letters = program
    .command('deadletters')
    .description(
      "Look at jobs that failed for good and run them again; admin calls: NEREID_ADMIN_KEY has the server's --admin-key",
    );
  const asked = (name: string) =>
    letters.command(name).option('--url <url>', 'a server or gateway of the cluster', SERVER_URL);
  const ofOne = (name: string) => asked(name).argument('<id>', 'of the job, as ls tells it');
  asked('ls')
    .description('List them: when and of what each died')
    .option('--model <name>', 'of this model alone')
    .option('--json', 'print JSON', false)
    .action(async (flags: LettersListOptions) => end(await run.listLetters(flags)));
  ofOne('show')
    .description('Tell one with its input, reason and history, as JSON')
    .action(async (id: string, flags: Omit<LetterOptions, 'id'>) => end(await run.showLetter({ ...flags, id })));
  ofOne('replay')
    .description('Run its job again, under the same id')
    .option('--data <file>', "other data for the job, JSON like the 'data' that show tells")
    .action(async (id: string, flags: Omit<ReplayOptions, 'id'>) => end(await run.replayLetter({ ...flags, id })));
  ofOne('rm')
    .description('Forget one; its job stays as it is')
    .action(async (id: string, flags: Omit<LetterOptions, 'id'>) => end(await run.removeLetter({ ...flags, id })));
}

function addWebhooks(program: Command, run: FollowUpCommands, end: End): void {
  const webhooks = program.command('webhooks').description('Look at the webhooks of jobs, and have them sent again');
  const ofOne = (name: string) =>
    webhooks
      .command(name)
      .option('--url <url>', 'a server or gateway of the cluster', SERVER_URL)
      .argument('<id>', 'of the job');
  ofOne('show')
    .description('Tell how far its delivery is')
    .action(async (id: string, flags: Omit<WebhookOptions, 'id'>) => end(await run.showWebhook({ ...flags, id })));
  ofOne('resend')
    .description('Have it sent at once, whatever became of it before')
    .action(async (id: string, flags: Omit<WebhookOptions, 'id'>) => end(await run.resendWebhook({ ...flags, id })));
}
