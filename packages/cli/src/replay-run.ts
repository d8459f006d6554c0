import type { StepDifference } from '@nereid/protocol';
import { differenceText } from './difference-text.ts';
import { type ExitCode, REPLAY_EXIT_CODE } from './exit-code.ts';
import { jsonLines, openCall } from './open-call.ts';
import { recordingPath } from './recordings.ts';
import { type CallHost, parsed } from './server-call.ts';

export interface ReplayHost extends CallHost {
  /** Throws where it cannot be read. */
  readonly readFile: (path: string) => string;
  /** Standard error is a terminal, whose last line may be written anew. */
  readonly isTerminal: boolean;
}

export interface ToleranceOptions {
  /** How far values of floating point may be apart, and how far as a share of the recorded one. */
  readonly atol?: number;
  readonly rtol?: number;
}

export interface ReplayRunOptions extends ToleranceOptions {
  readonly url: string;
  readonly id: string;
  readonly version?: string;
  /** Absent: flat. */
  readonly pace?: 'recorded' | 'flat' | number;
  readonly from?: number;
  readonly until?: number;
  readonly replace?: { readonly step: number; readonly file: string };
  readonly record: boolean;
  readonly stopAtFirst: boolean;
  readonly json: boolean;
}

/** A line of the answer to a replay: a step, or what came of all. */
interface StepLine {
  readonly step: number;
  readonly equal?: boolean;
}

interface FailureJson {
  readonly code?: string;
  readonly reason?: string;
  readonly message?: string;
  /** That could not be run. */
  readonly step?: number;
}

interface VerdictLine {
  readonly result: 'equal' | 'differs' | 'failed';
  readonly steps: number;
  readonly compared: number;
  readonly first_difference?: StepDifference;
  readonly error?: string | FailureJson;
  /** Of the run itself, where it was recorded. */
  readonly recording?: string;
  readonly config_changed?: boolean;
  readonly own_id_shown?: boolean;
}

/**
 * `nereid replay run`: has a server run a recording again and compare. One verdict on standard output, or with `json`
 * each line as it comes; how far it is on a terminal's standard error.
 */
export async function runReplay(options: ReplayRunOptions, host: ReplayHost): Promise<ExitCode> {
  const { url, id, json } = options;
  const fail = (text: string) => notRun('run', text, host);
  const body = replayBody(options, host);
  if (!body.ok) return fail(body.text);
  const opened = await openCall({ url, method: 'POST', path: `${recordingPath(id)}/replay`, body: body.text }, host);
  if (!opened.ok) return fail(opened.text);
  const progress = progressLine(host.isTerminal && !json, host.stderr);
  let differing = 0;
  let done = 0;
  try {
    for await (const text of jsonLines(opened.body)) {
      if (json) host.stdout(`${text}\n`);
      const line = parsed(text) as StepLine | VerdictLine | undefined;
      if (line === undefined || line === null) return fail(`${url} answered with a line that is no JSON`);
      if ('result' in line) {
        progress.clear();
        return line.result === 'failed' ? fail(errorText(line.error)) : verdict(line, differing, json, host);
      }
      done++;
      if (line.equal === false) differing++;
      progress.tell(`step ${line.step}: ${done} replayed, ${differing} differ`);
    }
  } catch (failure) {
    progress.clear();
    return fail(`the connection broke off after ${done} steps: ${(failure as Error).message}`);
  }
  progress.clear();
  return fail(`the server ended it after ${done} steps`);
}

/** Tells on standard error that there is no verdict, and why. */
export function notRun(command: 'run' | 'diff', text: string, { stderr }: CallHost): ExitCode {
  stderr(`nereid replay ${command}: could not run: ${text.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
  return REPLAY_EXIT_CODE.notRun;
}

function verdict(line: VerdictLine, differing: number, json: boolean, { stdout }: CallHost): ExitCode {
  const { result, compared, first_difference: first, recording, config_changed: isChanged, own_id_shown: own } = line;
  if (!json) {
    const notes = [
      ...(isChanged === true ? ["the model's configuration or files are not the recorded ones"] : []),
      ...(own === true ? ['a sequence with the recorded id goes on, so the model was shown another one'] : []),
      ...(recording === undefined ? [] : [`recorded as ${recording}`]),
    ];
    const told = [...(differing > 1 ? [`${differing} of ${compared} steps differ`] : []), ...notes];
    const head = result === 'equal' ? equalText(compared) : differsText(first);
    stdout(`${[head, ...told].join('; ')}\n`);
  }
  return result === 'equal' ? REPLAY_EXIT_CODE.equal : REPLAY_EXIT_CODE.differs;
}

export function equalText(compared: number): string {
  return `equal: ${compared} ${compared === 1 ? 'step' : 'steps'} compared`;
}

export function differsText(first: StepDifference | undefined): string {
  return first === undefined ? 'differs' : `differs at ${differenceText(first)}`;
}

function errorText(error: VerdictLine['error']): string {
  if (typeof error === 'string') return error;
  const { code, reason, message, step } = error ?? {};
  const kind = reason === undefined ? code : `${code} (${reason})`;
  return [step === undefined ? undefined : `step ${step}`, kind, message]
    .filter((part) => part !== undefined)
    .join(': ');
}

type Body = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly text: string };

/** The file's text goes along as it is, since its numbers may be beyond what JavaScript's JSON keeps; a step's inputs alone. */
function replayBody(options: ReplayRunOptions, host: ReplayHost): Body {
  const { version, pace, from, until, replace, atol, rtol, record, stopAtFirst } = options;
  const plain = JSON.stringify({ version, pace, from, until, atol, rtol, record, stop_at_first: stopAtFirst });
  if (replace === undefined) return { ok: true, text: plain };
  const wrong = (why: string): Body => ({
    ok: false,
    text: `--replace=${replace.step}=${replace.file}: ${why}; give a file with {"inputs": [...]}, as a request has them`,
  });
  let text: string;
  let value: unknown;
  try {
    text = host.readFile(replace.file).trim();
    value = JSON.parse(text);
  } catch (failure) {
    return wrong((failure as Error).message);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return wrong('it is no JSON object');
  if (!('inputs' in value)) return wrong("it has no 'inputs'");
  // What `show --json` has told of a step: nothing of it is beyond JavaScript's numbers.
  if ('effect' in value) text = exactJson({ inputs: value.inputs });
  else {
    const other = Object.keys(value).find((name) => name !== 'inputs');
    if (other !== undefined) return wrong(`it has the member '${other}'`);
  }
  return { ok: true, text: `${plain.slice(0, -1)},"replace":{"step":${replace.step},${text.slice(1)}}` };
}

/** With -0, which JSON has and JSON.stringify has not. */
function exactJson(value: object): string {
  const marked = JSON.stringify(value, (_name, part) => (Object.is(part, -0) ? MINUS_ZERO : part));
  return marked.replaceAll(JSON.stringify(MINUS_ZERO), '-0');
}

const MINUS_ZERO = '\u0000-0';

/** A last line that is written anew each time. */
function progressLine(isShown: boolean, stderr: CallHost['stderr']) {
  let isThere = false;
  const clear = () => {
    if (isThere) stderr('\r\u001b[K');
    isThere = false;
  };
  return {
    tell(text: string) {
      if (!isShown) return;
      stderr(`\r\u001b[K${text}`);
      isThere = true;
    },
    clear,
  };
}
