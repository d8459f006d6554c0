import type { Command } from 'commander';
import type { ExitCode } from './exit-code.ts';
import type { WriteText } from './log-destination.ts';
import type { ModelLoadOptions, ModelsListOptions, ModelUnloadOptions } from './models.ts';
import type { ModelsCheckOptions } from './models-check.ts';
import { SERVER_URL } from './server-call.ts';

/** What `nereid models …` runs. */
export interface ModelCommands {
  readonly check: (options: ModelsCheckOptions) => Promise<ExitCode>;
  readonly list: (options: ModelsListOptions) => Promise<ExitCode>;
  readonly load: (options: ModelLoadOptions) => Promise<ExitCode>;
  readonly unload: (options: ModelUnloadOptions) => Promise<ExitCode>;
}

interface Output {
  readonly stdout: WriteText;
  readonly stderr: WriteText;
}

type End = (code: ExitCode) => void;

export function addModels(program: Command, run: ModelCommands, { stdout, stderr }: Output, end: End): void {
  const models = program.command('models').description('Look at model repositories; load and unload models');
  models
    .command('check')
    .description('Check every model of the folders without loading any; exit code 4 if one is wrong')
    .argument('<folder...>', 'model repositories, or models')
    .option('--json', 'print JSON', false)
    .option('--disable-auto-complete-config', 'as for serve', false)
    .option('--model-config-name <name>', 'as for serve', '')
    .option('--run-code', 'let JavaScript models complete their configurations: their modules are imported', false)
    .action(
      async (
        repositories: string[],
        flags: { json: boolean; disableAutoCompleteConfig: boolean; modelConfigName: string; runCode: boolean },
      ) => {
        const { json, disableAutoCompleteConfig, modelConfigName, runCode } = flags;
        const autoComplete = !disableAutoCompleteConfig;
        end(await run.check({ repositories, json, autoComplete, modelConfigName, runCode, stdout, stderr }));
      },
    );
  addChanges(models, run, end);
}

/** Those that ask a server. */
function addChanges(models: Command, run: ModelCommands, end: End): void {
  const asked = (name: string) =>
    models.command(name).option('--url <url>', 'a server or gateway of the cluster', SERVER_URL);
  asked('ls')
    .description("List what a cluster's repositories hold: each model with its versions, their states and why")
    .option('--json', 'print JSON', false)
    .action(async (flags: ModelsListOptions) => end(await run.list(flags)));
  asked('load')
    .description(
      "Load a model, or load it anew, with --model-control-mode=explicit; code among the files may need the server's --admin-key in NEREID_ADMIN_KEY",
    )
    .argument('<model>', 'its name')
    .option('--config <file>', "in place of its config.pbtxt: a file like that, or JSON in one that ends with '.json'")
    .option(
      '--file <path=file>',
      'make the model of such files, with --config: 1/model.onnx=./m.onnx; repeatable',
      also,
    )
    .action(async (model: string, flags: Omit<ModelLoadOptions, 'model'>) => end(await run.load({ ...flags, model })));
  asked('unload')
    .description('Unload a model: it takes no new request, what was accepted ends')
    .argument('<model>', 'its name')
    .option('--unload-dependents', 'also what it was made of, where nobody else wants that', false)
    .action(async (model: string, flags: Omit<ModelUnloadOptions, 'model'>) => {
      end(await run.unload({ ...flags, model }));
    });
}

function also(file: string, before: readonly string[] = []): readonly string[] {
  return [...before, file];
}
