import type { RecordingJson } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { subjectText } from './recording-text.ts';
import { type CallHost, callServer, inPath, type ServerCall } from './server-call.ts';
import { renderTable } from './table.ts';

export const RECORDINGS_PATH = '/nereid/v1/journal';
/** Of one question; there is one after another until enough are told. */
const PAGE_MAX = 100;
const HEAD = ['Recording', 'Model', 'Version', 'Sequence', 'Steps', 'State', 'Started', 'Bytes'];

export interface RecordingOptions {
  readonly url: string;
  readonly id: string;
}

export interface RecordingsListOptions {
  readonly url: string;
  readonly model?: string;
  readonly state?: string;
  readonly sequenceId?: string;
  /** Recordings told at most. */
  readonly limit: number;
  readonly json: boolean;
}

/** `nereid replay ls`: the recordings that match, as a table or as JSON. */
export async function listRecordings(options: RecordingsListOptions, host: CallHost): Promise<ExitCode> {
  const { url, model, state, sequenceId, limit, json } = options;
  const all: RecordingJson[] = [];
  let after: string | undefined;
  do {
    const query = {
      model,
      state,
      sequence_id: sequenceId,
      limit: String(Math.min(PAGE_MAX, limit - all.length)),
      after,
    };
    const answer = await callServer({ ...call('ls', url), query, member: 'recordings' }, host);
    if (!answer.ok) return answer.exitCode;
    const { recordings, next } = answer.body as {
      readonly recordings: readonly RecordingJson[];
      readonly next?: string;
    };
    all.push(...recordings);
    after = next;
  } while (after !== undefined && all.length < limit);
  host.stdout(`${json ? JSON.stringify(all) : renderTable(HEAD, all.map(row))}\n`);
  if (after !== undefined) host.stderr(`nereid replay ls: there may be more than ${limit}: raise --limit\n`);
  return EXIT_CODE.stopped;
}

/** `nereid replay rm`: forgets a recording. */
export async function removeRecording({ url, id }: RecordingOptions, host: CallHost): Promise<ExitCode> {
  const answer = await callServer({ ...call('rm', url), path: recordingPath(id), method: 'DELETE' }, host);
  if (!answer.ok) return answer.exitCode;
  host.stdout(`removed ${id}\n`);
  return EXIT_CODE.stopped;
}

function call(name: string, url: string): ServerCall {
  return { command: `replay ${name}`, url, method: 'GET', path: RECORDINGS_PATH };
}

export function recordingPath(id: string): string {
  return `${RECORDINGS_PATH}/${inPath(id)}`;
}

function row(recording: RecordingJson): readonly string[] {
  const { id, model_name: model, model_version: version, steps, state, started_at: started, bytes } = recording;
  return [id, model, version, subjectText(recording), String(steps), state, started, String(bytes)];
}
