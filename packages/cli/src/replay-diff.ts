import type { DifferenceJson } from './difference-text.ts';
import { type ExitCode, REPLAY_EXIT_CODE } from './exit-code.ts';
import { openCall } from './open-call.ts';
import { recordingPath } from './recordings.ts';
import { differsText, equalText, notRun, type ToleranceOptions } from './replay-run.ts';
import { type CallHost, parsed } from './server-call.ts';

export interface DiffOptions extends ToleranceOptions {
  readonly url: string;
  readonly recordings: readonly [string, string];
  readonly json: boolean;
}

/** As GET /nereid/v1/journal/{id}/diff tells it. */
interface ComparedJson {
  readonly result: 'equal' | 'differs';
  /** Steps that were compared. */
  readonly compared: number;
  readonly first_difference?: DifferenceJson;
}

/** `nereid replay diff`: whether two recordings have the same answers. */
export async function diffRecordings(options: DiffOptions, host: CallHost): Promise<ExitCode> {
  const compared = await ask(options, host);
  if (typeof compared === 'string') return notRun('diff', compared, host);
  const { result, compared: steps, first_difference: first } = compared;
  const text = result === 'equal' ? equalText(steps) : differsText(first);
  host.stdout(`${options.json ? JSON.stringify(compared) : text}\n`);
  return result === 'equal' ? REPLAY_EXIT_CODE.equal : REPLAY_EXIT_CODE.differs;
}

/** Or why not. */
async function ask(
  { url, recordings: [one, other], atol, rtol }: DiffOptions,
  host: CallHost,
): Promise<ComparedJson | string> {
  const query = { with: other, atol: numberOrNone(atol), rtol: numberOrNone(rtol) };
  const opened = await openCall({ url, method: 'GET', path: `${recordingPath(one)}/diff`, query }, host);
  if (!opened.ok) return opened.text;
  const answer = parsed(await new Response(opened.body).text()) as ComparedJson | undefined;
  return answer?.result === undefined
    ? `${url} answered with no comparison: is it a Nereid server's HTTP port?`
    : answer;
}

function numberOrNone(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}
