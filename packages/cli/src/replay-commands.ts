import { type Command, InvalidArgumentError } from 'commander';
import type { ExitCode } from './exit-code.ts';
import type { RecordingShowOptions } from './recording-show.ts';
import type { RecordingOptions, RecordingsListOptions } from './recordings.ts';
import type { DiffOptions } from './replay-diff.ts';
import type { ExportOptions, ImportOptions } from './replay-files.ts';
import type { ReplayRunOptions } from './replay-run.ts';
import { SERVER_URL } from './server-call.ts';

/** What `nereid replay …` runs. */
export interface ReplayCommands {
  readonly list: (options: RecordingsListOptions) => Promise<ExitCode>;
  readonly show: (options: RecordingShowOptions) => Promise<ExitCode>;
  readonly run: (options: ReplayRunOptions) => Promise<ExitCode>;
  readonly diff: (options: DiffOptions) => Promise<ExitCode>;
  readonly export: (options: ExportOptions) => Promise<ExitCode>;
  readonly import: (options: ImportOptions) => Promise<ExitCode>;
  readonly remove: (options: RecordingOptions) => Promise<ExitCode>;
}

type End = (code: ExitCode) => void;
type Flags<T> = Omit<T, 'id'>;

const LIMIT_DEFAULT = 100;
const ENDS = 'exit code 0 if they are equal, 1 if not, 2 if it could not run';

export function addReplay(program: Command, run: ReplayCommands, end: End): void {
  const replay = program
    .command('replay')
    .description(
      "Look at what the journal has recorded, and run it again; admin calls: NEREID_ADMIN_KEY has the server's --admin-key",
    );
  const asked = (name: string) =>
    replay.command(name).option('--url <url>', 'a server or gateway of the cluster', SERVER_URL);
  const ofOne = (name: string) => asked(name).argument('<id>', 'of the recording, as ls tells it');
  addLooks(asked, ofOne, run, end);
  addRuns(asked, ofOne, run, end);
  addFiles(asked, ofOne, run, end);
}

type Named = (name: string) => Command;

function addLooks(asked: Named, ofOne: Named, run: ReplayCommands, end: End): void {
  asked('ls')
    .description('List recordings, of each model the newest first')
    .option('--model <name>', 'of this model alone')
    .option('--state <state>', 'in this state alone: open, ended, cancelled, freed, lost, capped, gap')
    .option('--sequence-id <id>', 'of the sequences with this id alone')
    .option('--limit <n>', 'recordings at most', fromOne, LIMIT_DEFAULT)
    .option('--json', 'print JSON', false)
    .action(async (flags: RecordingsListOptions) => end(await run.list(flags)));
  ofOne('show')
    .description('Tell what a recording is of, and its steps')
    .option('--step <k>', 'this step alone, with its parameters, inputs and outputs', fromZero)
    .option('--all', 'all values of that step, not the first of each tensor', false)
    .option('--from <k>', 'steps from this one on', fromZero, 0)
    .option('--limit <n>', 'steps at most', fromOne, LIMIT_DEFAULT)
    .option('--json', 'print JSON', false)
    .action(async (id: string, flags: Flags<RecordingShowOptions>) => end(await run.show({ ...flags, id })));
  ofOne('rm')
    .description('Forget a recording')
    .action(async (id: string, flags: Flags<RecordingOptions>) => end(await run.remove({ ...flags, id })));
}

function addRuns(asked: Named, ofOne: Named, run: ReplayCommands, end: End): void {
  tolerances(ofOne('run'))
    .description(`Run a recording again and compare the outputs; ${ENDS}`)
    .option('--version <v>', 'on this version of the model; the recorded one without it')
    .option('--pace <pace>', 'recorded, flat (one step after the other), or a factor: 2 is twice as fast', pace)
    .option('--from <k>', 'compare from this step on; those before run flat, to make the state', fromZero)
    .option('--until <k>', 'run the steps before this one alone', fromZero)
    .option('--replace <k=file>', 'run step k with the inputs of a file, JSON like {"inputs": [...]}', replacement)
    .option('--record', 'record the run, too', false)
    .option('--stop-at-first', 'end at the first step that differs', false)
    .option('--json', 'print each step, then the verdict, as a line of JSON', false)
    .action(async (id: string, flags: Flags<ReplayRunOptions>) => end(await run.run({ ...flags, id })));
  tolerances(asked('diff'))
    .description(`Compare the outputs of two recordings without running them; ${ENDS}`)
    .argument('<a>', "a recording's id, or an .nrj file")
    .argument('<b>', 'likewise')
    .option('--json', 'print JSON', false)
    .action(async (one: string, other: string, flags: Omit<DiffOptions, 'recordings'>) =>
      end(await run.diff({ ...flags, recordings: [one, other] })),
    );
}

function tolerances(command: Command): Command {
  return command
    .option('--atol <x>', 'values of floating point may be this far apart', tolerance)
    .option('--rtol <x>', 'and this far as a share of the recorded one', tolerance);
}

function addFiles(asked: Named, ofOne: Named, run: ReplayCommands, end: End): void {
  ofOne('export')
    .description('Write a recording to a file, for import elsewhere or as a test')
    .option('--out <file>', 'its name; - for standard output')
    .option('--gzip', 'compress it', false)
    .option('--as-test', "as a test in JavaScript that runs by itself, by Node's test runner", false)
    .action(async (id: string, flags: Flags<ExportOptions>) => end(await run.export({ ...flags, id })));
  asked('import')
    .description('Put the recording of a file into the journal')
    .argument('<file>', 'as export wrote it; - for standard input')
    .action(async (file: string, flags: Omit<ImportOptions, 'file'>) => end(await run.import({ ...flags, file })));
}

function fromZero(text: string): number {
  if (/^(?:0|[1-9][0-9]{0,14})$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be the number of a step, from 0.');
}

function fromOne(text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a whole number from 1.');
}

function tolerance(text: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value;
  throw new InvalidArgumentError('It must be a number from 0.');
}

function pace(text: string): 'recorded' | 'flat' | number {
  if (text === 'recorded' || text === 'flat') return text;
  const factor = Number(text);
  if (text.trim() !== '' && Number.isFinite(factor) && factor > 0) return factor;
  throw new InvalidArgumentError('It must be recorded, flat, or a factor above 0.');
}

function replacement(text: string): { readonly step: number; readonly file: string } {
  const [, step, file] = /^(0|[1-9][0-9]{0,14})=(.+)$/s.exec(text) ?? [];
  if (step !== undefined && file !== undefined) return { step: Number(step), file };
  throw new InvalidArgumentError('It must be the number of a step and a file, e.g. 12=inputs.json.');
}
