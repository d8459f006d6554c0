import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually, metric } from './metrics.ts';
import { linesIn, type ModelFolder } from './model-folder.ts';

/** What each request of an execution had, in the batch's order. */
export type Execution = readonly (readonly number[])[];

/** A model that gives its input VALUE back, each execution once it is let go, and says what each was given. */
export interface SteppedModel {
  readonly name: string;
  /** Executions that have begun, in their order. */
  executions(): readonly Execution[];
  /** Lets the next executions end; all of them without a number. */
  letGo(count?: number): void;
}

export interface SteppedOptions {
  /** Of config.pbtxt. */
  readonly config?: string;
  readonly maxBatchSize?: number;
  /** The one dimension of VALUE beside that of the batch. */
  readonly dims?: number;
  readonly instances?: number;
  /** What each execution takes once it is let go. */
  readonly runMs?: number;
}

/** Adds one to the folder. All its executions wait until `letGo`. */
export function addStepped(folder: ModelFolder, name: string, options: SteppedOptions = {}): SteppedModel {
  const { config = '', maxBatchSize = 0, dims = 1, instances = 1, runMs = 0 } = options;
  const begun = join(folder.path, `${name}.begun`);
  const steps = join(folder.path, `${name}.steps`);
  folder.addJavaScript(
    name,
    `import { appendFileSync, existsSync, readFileSync } from 'node:fs';
     import { setTimeout as delay } from 'node:timers/promises';
     const steps = ${JSON.stringify(steps)};
     let executions = 0;
     let free = false;
     function isLetGo(number) {
       const text = existsSync(steps) ? readFileSync(steps, 'utf8') : '';
       free = text.includes('*');
       return free || number < text.length;
     }
     export async function execute(requests) {
       const values = requests.map(({ inputs }) => [...inputs.get('VALUE').data]);
       appendFileSync(${JSON.stringify(begun)}, JSON.stringify(values) + '\\n');
       const number = executions++;
       while (!free && !isLetGo(number)) await delay(5);
       if (${runMs} > 0) await delay(${runMs});
       return requests.map(({ inputs }) => ({ outputs: { VALUE: inputs.get('VALUE') } }));
     }`,
    config,
    { maxBatchSize, dims, instances: `{ count: ${instances}, kind: KIND_CPU }` },
  );
  return {
    name,
    executions: () => linesIn(begun).map((line): Execution => JSON.parse(line)),
    // A step is a character: whoever reads it meanwhile never sees half of a number.
    letGo: (count) => appendFileSync(steps, count === undefined ? '*' : '.'.repeat(count)),
  };
}

/** Waits until so many of its executions have begun. */
export function begins(model: SteppedModel, executions: number): Promise<void> {
  return eventually(`${model.name} executes ${executions}`, async () => model.executions().length === executions);
}

/** Waits until so many requests wait for it, by the metrics at that address. */
export function waits(metrics: string, { name }: SteppedModel, requests: number): Promise<void> {
  return eventually(
    `${requests} wait at ${name}`,
    async () => (await metric(metrics, 'nv_inference_pending_request_count', { model: name })) === requests,
  );
}
