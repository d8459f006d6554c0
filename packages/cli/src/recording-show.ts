import type { RecordingJson, StepJson } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { recordingText, STEPS_HEAD, stepRow, stepText } from './recording-text.ts';
import { type RecordingOptions, recordingPath } from './recordings.ts';
import { type CallHost, callServer } from './server-call.ts';
import { renderTable } from './table.ts';

export interface RecordingShowOptions extends RecordingOptions {
  /** This step alone, with its values. */
  readonly step?: number;
  readonly from: number;
  /** Steps told at most. */
  readonly limit: number;
  /** All values of the step. */
  readonly all: boolean;
  readonly json: boolean;
}

interface Shown {
  readonly recording: RecordingJson;
  readonly steps: readonly StepJson[];
  /** Where the next answer begins. */
  readonly next?: number;
}

/** Of one question; there is one after another until enough are told. */
const PAGE_MAX = 1_000;

/** `nereid replay show`: what a recording is of, and its steps in a table; or one of them with its values. */
export async function showRecording(options: RecordingShowOptions, host: CallHost): Promise<ExitCode> {
  const { id, step, json, all } = options;
  const from = step ?? options.from;
  const shown = await ask(options, from, step === undefined ? options.limit : 1, host);
  if ('exitCode' in shown) return shown.exitCode;
  const { recording, steps, next } = shown;
  if (step !== undefined) {
    const [found] = steps;
    if (found === undefined) {
      host.stderr(`nereid replay show: ${id} has no step ${step}: it has ${recording.steps}, from 0\n`);
      return EXIT_CODE.failed;
    }
    host.stdout(`${json ? JSON.stringify(found) : stepText(found, recording, all)}\n`);
    return EXIT_CODE.stopped;
  }
  const rows = steps.map((each) => stepRow(each, recording.started_at));
  host.stdout(
    `${json ? JSON.stringify({ recording, steps }) : `${recordingText(recording)}\n${renderTable(STEPS_HEAD, rows)}`}\n`,
  );
  if (next !== undefined)
    host.stderr(`nereid replay show: there are more steps: raise --limit, or go on with --from=${next}\n`);
  return EXIT_CODE.stopped;
}

async function ask(
  { url, id }: RecordingOptions,
  from: number,
  limit: number,
  host: CallHost,
): Promise<Shown | { readonly exitCode: ExitCode }> {
  const steps: StepJson[] = [];
  let next: number | undefined = from;
  let recording: RecordingJson | undefined;
  do {
    const query = { from: String(next), limit: String(Math.min(PAGE_MAX, limit - steps.length)), data: 'true' };
    const call = {
      command: 'replay show',
      url,
      method: 'GET',
      path: recordingPath(id),
      query,
      member: 'recording',
    } as const;
    const answer = await callServer(call, host);
    if (!answer.ok) return answer;
    const page = answer.body as Shown;
    recording = page.recording;
    steps.push(...page.steps);
    next = page.next;
  } while (next !== undefined && steps.length < limit);
  return { recording, steps, ...(next === undefined ? {} : { next }) };
}
