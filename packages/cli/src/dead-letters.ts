import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { type CallHost, callServer, inPath, type ServerCall } from './server-call.ts';
import { renderTable } from './table.ts';

/** As GET /nereid/v1/deadletters tells it. */
interface LetterJson {
  readonly id: string;
  readonly error: { readonly code: string; readonly message: string };
  readonly attempts_made: number;
  readonly died_at: string;
}

const PATH = '/nereid/v1/deadletters';
/** Of one question; there is one after another until all are told. */
const PAGE = '1000';
const HEAD = ['Job', 'Died', 'Attempts', 'Error'];

export interface LettersListOptions {
  readonly url: string;
  readonly model?: string;
  readonly json: boolean;
}

/** `nereid deadletters ls`: all jobs that are set aside, as a table or as JSON. */
export async function listLetters({ url, model, json }: LettersListOptions, host: CallHost): Promise<ExitCode> {
  const all: LetterJson[] = [];
  let after: string | undefined;
  do {
    const query = { model, limit: PAGE, after };
    const answer = await callServer({ ...call('ls', url), query, member: 'deadletters' }, host);
    if (!answer.ok) return answer.exitCode;
    const { deadletters, next } = answer.body as {
      readonly deadletters: readonly LetterJson[];
      readonly next?: string;
    };
    all.push(...deadletters);
    after = next;
  } while (after !== undefined);
  host.stdout(`${json ? JSON.stringify(all) : renderTable(HEAD, all.map(row))}\n`);
  return EXIT_CODE.stopped;
}

export interface LetterOptions {
  readonly url: string;
  readonly id: string;
}

/** `nereid deadletters show`: one with its input, reason and history, as JSON: what `replay --data` takes is in it. */
export async function showLetter({ url, id }: LetterOptions, host: CallHost): Promise<ExitCode> {
  const answer = await callServer({ ...call('show', url, id), member: 'id' }, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`${JSON.stringify(answer.body, null, 2)}\n`);
  return EXIT_CODE.stopped;
}

export interface ReplayOptions extends LetterOptions {
  /** A file with other data for the job. */
  readonly data?: string;
}

export interface ReplayHost extends CallHost {
  /** Throws where it cannot be read. */
  readonly readFile: (path: string) => string;
}

/** `nereid deadletters replay`: runs the job again, with its own data or those of a file. */
export async function replayLetter({ url, id, data }: ReplayOptions, host: ReplayHost): Promise<ExitCode> {
  const asked = call('replay', url, id);
  let body: string | undefined;
  if (data !== undefined) {
    try {
      body = JSON.stringify({ data: JSON.parse(host.readFile(data)) });
    } catch (failure) {
      host.stderr(`nereid deadletters replay: --data=${data} is no file of JSON: ${(failure as Error).message}\n`);
      return EXIT_CODE.usage;
    }
  }
  const replay = { ...asked, method: 'POST', path: `${asked.path}/replay`, member: 'id', body } as const;
  const answer = await callServer(replay, host);
  if (!answer.ok) return answer.exitCode;
  const { id: job, state } = answer.body as { readonly id: string; readonly state?: string };
  host.stdout(`${job} ${state ?? 'runs again'}\n`);
  return EXIT_CODE.stopped;
}

/** `nereid deadletters rm`: forgets one; its job stays as it is. */
export async function removeLetter({ url, id }: LetterOptions, host: CallHost): Promise<ExitCode> {
  const answer = await callServer({ ...call('rm', url, id), method: 'DELETE', member: 'id' }, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`removed ${id}\n`);
  return EXIT_CODE.stopped;
}

function call(name: string, url: string, id?: string): ServerCall {
  const path = id === undefined ? PATH : `${PATH}/${inPath(id)}`;
  return { command: `deadletters ${name}`, url, method: 'GET', path };
}

function row({ id, error, attempts_made: attempts, died_at: died }: LetterJson): readonly string[] {
  return [id, died, String(attempts), `${error.code}: ${error.message}`];
}
