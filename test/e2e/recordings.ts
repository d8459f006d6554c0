import { runCli } from '../command.mjs';
import { eventually } from './metrics.ts';
import type { JsonTensor } from './requests.ts';

/** How a command ended. */
export interface Ran {
  readonly code: number | null;
  readonly output: string;
}

/** What `nereid replay ls --json` says of a recording. */
export interface ListedRecording {
  readonly id: string;
  readonly model_name: string;
  readonly model_version: string;
  readonly kind: string;
  readonly sequence_id?: number | string;
  readonly state: string;
  readonly steps: number;
  readonly steps_applied?: number;
  readonly bytes: number;
  readonly imported: boolean;
}

interface ShownTensor extends JsonTensor {
  readonly byte_size?: number;
  readonly digest?: string;
  readonly redacted?: boolean;
}

/** What `nereid replay show --json` says of a step. */
export interface ShownStep {
  readonly step: number;
  readonly effect: string;
  readonly sequence_start?: boolean;
  readonly sequence_end?: boolean;
  readonly inputs: readonly ShownTensor[];
  readonly answers: readonly {
    readonly outputs?: readonly ShownTensor[];
    readonly error?: { readonly message: string };
  }[];
}

export interface ShownRecording {
  readonly recording: ListedRecording;
  readonly steps: readonly ShownStep[];
}

/** Of a recording the steps that one `show` tells. */
const STEPS_MAX = 10_000;

/** Runs `nereid replay ARGS` against a server. */
export async function replayCommand(http: string, args: readonly string[]): Promise<Ran> {
  const { code, output } = await runCli(['replay', ...args, `--url=${http}`]).ended;
  return { code, output };
}

/** The same for a command that has to work and prints JSON. */
async function asked(http: string, args: readonly string[]): Promise<unknown> {
  const { code, output } = await replayCommand(http, args);
  if (code !== 0) throw new Error(`nereid replay ${args.join(' ')} ended with ${code}:\n${output}`);
  return JSON.parse(output);
}

/** What `nereid replay ls --json` tells of a model's recordings, the newest first. */
export async function listedByCommand(http: string, model: string): Promise<readonly ListedRecording[]> {
  return (await asked(http, ['ls', `--model=${model}`, '--json'])) as readonly ListedRecording[];
}

/** What `nereid replay show --json` tells. */
export async function shownByCommand(http: string, id: string): Promise<ShownRecording> {
  return (await asked(http, ['show', id, '--json', `--limit=${STEPS_MAX}`])) as ShownRecording;
}

/** Recordings of a model, the newest first. */
export async function listRecordings(http: string, model: string): Promise<readonly ListedRecording[]> {
  const { recordings } = await got(http, `?model=${model}`);
  return recordings as readonly ListedRecording[];
}

/** The newest recording of a sequence, once it is over: an answer may leave a moment before its step is there to be read. */
export async function overRecording(http: string, model: string, sequence: string): Promise<ListedRecording> {
  let found: ListedRecording | undefined;
  await eventually(`the recording of ${sequence} is over`, async () => {
    found = (await listRecordings(http, model)).find(({ sequence_id: id }) => id === sequence);
    return found !== undefined && found.state !== 'open';
  });
  return found as unknown as ListedRecording;
}

export async function showRecording(http: string, id: string): Promise<ShownRecording> {
  const steps: ShownStep[] = [];
  for (;;) {
    const page = await got(http, `/${id}?data=true&limit=1000&from=${steps.length}`);
    steps.push(...(page.steps as ShownStep[]));
    if (page.next === undefined) return { recording: page.recording as ListedRecording, steps };
  }
}

async function got(http: string, rest: string): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`${http}/nereid/v1/journal${rest}`);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status}: ${text}`);
  return JSON.parse(text);
}
