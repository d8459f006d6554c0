import type { StepDifference } from '@nereid/protocol';
import { compareRecordings, type JournalFile, type Tolerance } from '@nereid/protocol';
import { type ExitCode, REPLAY_EXIT_CODE } from './exit-code.ts';
import { openCall } from './open-call.ts';
import { fileRecording, isFileName, serverRecording } from './recording-source.ts';
import { recordingPath } from './recordings.ts';
import { differsText, equalText, notRun, type ToleranceOptions } from './replay-run.ts';
import { type CallHost, parsed } from './server-call.ts';

export interface DiffOptions extends ToleranceOptions {
  readonly url: string;
  /** Ids, or names of files. */
  readonly recordings: readonly [string, string];
  readonly json: boolean;
}

/** As GET /nereid/v1/journal/{id}/diff tells it. */
interface ComparedJson {
  readonly result: 'equal' | 'differs';
  /** Steps that were compared. */
  readonly compared: number;
  readonly first_difference?: StepDifference | undefined;
}

/**
 * `nereid replay diff`: whether two recordings have the same answers. Those of a server are compared there, files here,
 * also with a recording that the server exports.
 */
export async function diffRecordings(options: DiffOptions, host: CallHost): Promise<ExitCode> {
  const { json, recordings } = options;
  let compared: ComparedJson;
  try {
    compared = await (recordings.some(isFileName) ? comparedHere(options, host) : comparedThere(options, host));
  } catch (failure) {
    return notRun('diff', (failure as Error).message, host);
  }
  const { result, compared: steps, first_difference: first } = compared;
  const text = result === 'equal' ? equalText(steps) : differsText(first);
  host.stdout(`${json ? JSON.stringify(compared) : text}\n`);
  return result === 'equal' ? REPLAY_EXIT_CODE.equal : REPLAY_EXIT_CODE.differs;
}

async function comparedThere(options: DiffOptions, host: CallHost): Promise<ComparedJson> {
  const { url, atol, rtol } = options;
  const [one, other] = options.recordings;
  const query = { with: other, atol: textOrNone(atol), rtol: textOrNone(rtol) };
  const opened = await openCall({ url, method: 'GET', path: `${recordingPath(one)}/diff`, query }, host);
  if (!opened.ok) throw new Error(opened.text);
  const answer = parsed(await new Response(opened.body).text()) as ComparedJson | undefined;
  if (answer?.result !== undefined) return answer;
  throw new Error(`${url} answered with no comparison: is it a Nereid server's HTTP port?`);
}

async function comparedHere(options: DiffOptions, host: CallHost): Promise<ComparedJson> {
  const { url, recordings, atol, rtol } = options;
  const opened: JournalFile[] = [];
  try {
    for (const name of recordings) {
      opened.push(await (isFileName(name) ? fileRecording(name) : serverRecording(url, name, host)));
    }
    const [one, other] = opened as [JournalFile, JournalFile];
    const tolerance: Tolerance =
      atol === undefined && rtol === undefined ? 'exact' : { atol: atol ?? 0, rtol: rtol ?? 0 };
    const { compared, firstDifference } = await compareRecordings(one.steps, other.steps, tolerance);
    return { result: firstDifference === undefined ? 'equal' : 'differs', compared, first_difference: firstDifference };
  } finally {
    for (const file of opened) await file.close();
  }
}

function textOrNone(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
