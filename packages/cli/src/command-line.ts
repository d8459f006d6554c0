import { Command, CommanderError, Help } from 'commander';
import { type AliasCommands, addAliases } from './alias-commands.ts';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import type { ExplainOptions } from './explain.ts';
import { addFollowUps, type FollowUpCommands } from './follow-up-commands.ts';
import { programHelp, runHelp } from './help.ts';
import { addJobs, type JobCommands } from './job-commands.ts';
import { addModels, type ModelCommands } from './model-commands.ts';
import { addReplay, type ReplayCommands } from './replay-commands.ts';
import type { RunCommand, RunHost } from './run.ts';
import type { EvictOptions, ListOptions } from './sequences.ts';
import { SERVER_URL } from './server-call.ts';

export interface CommandLine {
  readonly version: string;
  readonly stdout: RunHost['stdout'];
  readonly stderr: RunHost['stderr'];
  /** Runs the command with the arguments that follow it. */
  readonly run: (command: RunCommand, argv: readonly string[]) => Promise<ExitCode>;
  readonly models: ModelCommands;
  readonly listSequences: (options: ListOptions) => Promise<ExitCode>;
  readonly explain: (options: ExplainOptions) => Promise<ExitCode>;
  readonly evictSequence: (options: EvictOptions) => Promise<ExitCode>;
  readonly aliases: AliasCommands;
  readonly jobs: JobCommands;
  readonly followUps: FollowUpCommands;
  readonly replay: ReplayCommands;
}

const RUN_COMMANDS: readonly RunCommand[] = ['serve', 'gateway', 'coordinator', 'worker'];
const HELP_FLAGS: readonly string[] = ['--help', '-h'];

/**
 * Runs the command that the arguments (without node and script) name and gives the exit code.
 * Commander finds the command; the options of those that run are read by `parseOptions`, since they
 * also come from the environment and a file.
 */
export async function runCommandLine(argv: readonly string[], line: CommandLine): Promise<ExitCode> {
  const [first = ''] = argv;
  if (first.startsWith('--') && !['--help', '--version'].includes(first)) {
    line.stderr(`nereid: a command comes before ${first}: did you mean nereid serve ${first}?\n`);
    return EXIT_CODE.usage;
  }
  let exitCode: ExitCode = EXIT_CODE.stopped;
  const end = (code: ExitCode) => {
    exitCode = code;
  };
  const program = createProgram(line);
  for (const command of RUN_COMMANDS) addRun(command, program, line, end);
  addModels(program, line.models, line, end);
  addSequences(program, line, end);
  addExplain(program, line, end);
  addAliases(program, line.aliases, end);
  addJobs(program, line.jobs, end);
  addFollowUps(program, line.followUps, end);
  addReplay(program, line.replay, end);
  try {
    await program.parseAsync([...argv], { from: 'user' });
    return exitCode;
  } catch (failure) {
    if (!(failure instanceof CommanderError)) throw failure;
    // Commander's own codes: 0 where help or version was asked for, 1 for a bad command line.
    return failure.exitCode === 0 ? EXIT_CODE.stopped : EXIT_CODE.usage;
  }
}

function createProgram(line: CommandLine): Command {
  return new Command('nereid')
    .version(line.version, '--version')
    .helpOption('-h, --help')
    .helpCommand(false)
    .enablePositionalOptions()
    .exitOverride()
    .configureHelp({
      // Commands inherit this; theirs is Commander's own.
      formatHelp: (command, helper) =>
        command.parent === null ? programHelp() : Help.prototype.formatHelp.call(helper, command, helper),
    })
    .configureOutput({
      writeOut: line.stdout,
      writeErr: line.stderr,
      outputError: (text, write) => write(text.replace(/^error: /, 'nereid: ').replace(/\n\((.*)\)\n/, ': $1\n')),
    });
}

type End = (code: ExitCode) => void;

function addRun(command: RunCommand, program: Command, line: CommandLine, end: End): void {
  program
    .command(command)
    .helpOption(false)
    .allowUnknownOption()
    .allowExcessArguments()
    .passThroughOptions()
    .argument('[options...]')
    .action(async (options: string[]) => {
      if (options.some((option) => HELP_FLAGS.includes(option))) line.stdout(runHelp(command));
      else end(await line.run(command, options));
    });
}

function addSequences(program: Command, line: CommandLine, end: End): void {
  const sequences = program.command('sequences').description('Look at the sequences that a server keeps');
  const asked = (name: string) =>
    sequences
      .command(name)
      .option('--url <url>', 'a server or gateway of the cluster', SERVER_URL)
      .option('--model <name>', 'of this model alone');
  asked('ls')
    .description('List all sequences: where each is kept, its steps, how long it has been idle')
    .option('--json', 'print JSON', false)
    .action(async (flags: ListOptions) => end(await line.listSequences(flags)));
  asked('evict')
    .description("End a sequence; an admin call, so from elsewhere NEREID_ADMIN_KEY must have the server's --admin-key")
    .argument('<session>', 'its session, as ls tells it')
    .action(async (session: string, flags: Omit<EvictOptions, 'session'>) => {
      end(await line.evictSequence({ ...flags, session }));
    });
}

function addExplain(program: Command, line: CommandLine, end: End): void {
  program
    .command('explain')
    .description('Tell what became of a request: where it waited, with whom it ran, how long each part took')
    .argument('<id>', "its client's id, the Nereid-Request-Id of its answer, a job's id, or a trace's")
    .option('--url <url>', 'a server or gateway of the cluster', SERVER_URL)
    .option('--limit <n>', 'requests of that id at most, the newest first')
    .option('--json', 'print JSON', false)
    .action(async (id: string, flags: Omit<ExplainOptions, 'id'>) => end(await line.explain({ ...flags, id })));
}
