import type { Command } from 'commander';
import type { AliasesListOptions, AliasOptions, AliasPromoteOptions, AliasSetOptions } from './aliases.ts';
import type { ExitCode } from './exit-code.ts';
import { SERVER_URL } from './server-call.ts';

/** What `nereid aliases …` runs. */
export interface AliasCommands {
  readonly list: (options: AliasesListOptions) => Promise<ExitCode>;
  readonly set: (options: AliasSetOptions) => Promise<ExitCode>;
  readonly promote: (options: AliasPromoteOptions) => Promise<ExitCode>;
  readonly rollBack: (options: AliasOptions) => Promise<ExitCode>;
  readonly remove: (options: AliasOptions) => Promise<ExitCode>;
}

type Url = Pick<AliasOptions, 'url'>;

export function addAliases(program: Command, run: AliasCommands, end: (code: ExitCode) => void): void {
  const aliases = program
    .command('aliases')
    .description(
      "Look at names that stand for versions of models, and change them; changes are admin calls: NEREID_ADMIN_KEY has the server's --admin-key",
    );
  const asked = (name: string) =>
    aliases.command(name).option('--url <url>', 'a server or gateway of the cluster', SERVER_URL);
  const ofOne = (name: string) => asked(name).argument('<alias>', 'its name');
  asked('ls')
    .description('List them: for what each stands, and where its copies go')
    .option('--json', 'print JSON', false)
    .action(async (flags: AliasesListOptions) => end(await run.list(flags)));
  ofOne('set')
    .description('Make one, or replace it')
    .argument('<model>', 'for whose versions it stands')
    .argument('<version=weight...>', "each version with its weight; 1 without one, e.g. '1=95 2=5'")
    .option(
      '--shadow <version=share>',
      'copy that share of the requests, from 0 to 1, to that version; all without one',
    )
    .option('--atol <n>', 'copies are equal within an absolute difference')
    .option('--rtol <n>', 'copies are equal within a relative difference')
    .action(async (name: string, model: string, versions: readonly string[], flags: Url) =>
      end(await run.set({ ...flags, name, model, versions })),
    );
  ofOne('promote')
    .description('Give one version all requests, in one step')
    .argument('<version>', 'of its model')
    .action(async (name: string, version: string, flags: Url) => end(await run.promote({ ...flags, name, version })));
  ofOne('rollback')
    .description('Undo the last change of its weights, in one step')
    .action(async (name: string, flags: Url) => end(await run.rollBack({ ...flags, name })));
  ofOne('rm')
    .description('Remove it: its name is unknown from then on')
    .action(async (name: string, flags: Url) => end(await run.remove({ ...flags, name })));
}
