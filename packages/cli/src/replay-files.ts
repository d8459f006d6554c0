import { open, rename, rm, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { RecordingJson } from '@nereid/protocol';
import { journalTestCase } from '@nereid/protocol';
import { EXIT_CODE, type ExitCode } from './exit-code.ts';
import { openCall } from './open-call.ts';
import { fileStream, serverRecording } from './recording-source.ts';
import { RECORDINGS_PATH, type RecordingOptions, recordingPath } from './recordings.ts';
import { type CallHost, parsed } from './server-call.ts';

export interface FilesHost extends CallHost {
  readonly pid: number;
  /** Standard input, to its end. */
  readonly stdin: () => ReadableStream<Uint8Array>;
  /** Resolves once standard output has taken them; rejects where nobody reads it. */
  readonly writeBytes: (bytes: Uint8Array) => Promise<void>;
}

export interface ExportOptions extends RecordingOptions {
  /** `-` for standard output; a name made of the id without it. */
  readonly out?: string;
  readonly gzip: boolean;
  /** As a test that runs by itself. */
  readonly asTest: boolean;
}

export interface ImportOptions {
  readonly url: string;
  /** `-` for standard input. */
  readonly file: string;
}

const STANDARD = '-';

/** `nereid replay export`: writes a recording to a file, which is there whole or not at all. */
export async function exportRecording(options: ExportOptions, host: FilesHost): Promise<ExitCode> {
  const { id, gzip, asTest, out = fileName(id, ending(options)) } = options;
  const fail = (text: string, exitCode?: ExitCode) => failed('export', text, host, exitCode);
  if (gzip && asTest) return fail('--as-test writes a text that Node runs: leave --gzip out', EXIT_CODE.usage);
  let body: AsyncIterable<Uint8Array>;
  try {
    body = await (asTest ? testCase(options, host) : recordingFile(options, host));
  } catch (failure) {
    return fail((failure as Error).message);
  }
  try {
    const bytes = await (out === STANDARD ? toStandardOutput(body, host) : toFile(body, out, host));
    if (out !== STANDARD) host.stdout(`wrote ${id} to ${out}, ${bytes} bytes\n`);
    return EXIT_CODE.stopped;
  } catch (failure) {
    return fail(`${out === STANDARD ? 'standard output' : out}: ${(failure as Error).message}`);
  }
}

function ending({ gzip, asTest }: ExportOptions): string {
  if (asTest) return '.test.mjs';
  return gzip ? '.nrj.gz' : '.nrj';
}

async function recordingFile({ url, id, gzip }: ExportOptions, host: FilesHost): Promise<AsyncIterable<Uint8Array>> {
  const query = gzip ? { gzip: 'true' } : {};
  const opened = await openCall({ url, method: 'GET', path: `${recordingPath(id)}/export`, query }, host);
  if (opened.ok) return opened.body;
  throw new Error(opened.text);
}

async function testCase({ url, id }: ExportOptions, host: FilesHost): Promise<AsyncIterable<Uint8Array>> {
  const { recording, steps } = await serverRecording(url, id, host);
  return Readable.from([Buffer.from(await journalTestCase(recording, steps))]);
}

/** `nereid replay import`: puts the recording of a file into a server's journal. */
export async function importRecording({ url, file }: ImportOptions, host: FilesHost): Promise<ExitCode> {
  const fail = (text: string, exitCode?: ExitCode) => failed('import', text, host, exitCode);
  let body: ReadableStream<Uint8Array>;
  try {
    body = file === STANDARD ? host.stdin() : await fileStream(file);
  } catch (failure) {
    return fail(`cannot read ${file}: ${(failure as Error).message}`, EXIT_CODE.usage);
  }
  const opened = await openCall({ url, method: 'POST', path: RECORDINGS_PATH, body }, host);
  if (!opened.ok) return fail(opened.text);
  const recording = parsed(await new Response(opened.body).text()) as Partial<RecordingJson> | undefined;
  if (recording?.id === undefined) return fail(`${url} answered with no recording: is it a Nereid server's HTTP port?`);
  host.stdout(`imported as ${recording.id}: ${recording.steps} steps of model ${recording.model_name}\n`);
  return EXIT_CODE.stopped;
}

/** A name of no folder. */
function fileName(id: string, ending: string): string {
  return `${id.replace(/[^A-Za-z0-9_.%-]/g, '-')}${ending}`;
}

async function toStandardOutput(body: AsyncIterable<Uint8Array>, { writeBytes }: FilesHost): Promise<number> {
  let written = 0;
  for await (const bytes of body) {
    await writeBytes(bytes);
    written += bytes.byteLength;
  }
  return written;
}

/** Written beside it and renamed once it is whole. A device or a pipe is written to, and stays what it is. */
async function toFile(body: AsyncIterable<Uint8Array>, path: string, { pid }: FilesHost): Promise<number> {
  const there = await stat(path).catch(() => undefined);
  if (there?.isDirectory() === true) throw new Error('it is a folder: give the name of a file');
  const part = there === undefined || there.isFile() ? `${path}.${pid}.part` : path;
  const handle = await open(part, 'w');
  let written = 0;
  try {
    try {
      for await (const bytes of body) {
        await handle.writeFile(bytes);
        written += bytes.byteLength;
      }
    } finally {
      await handle.close();
    }
    if (part !== path) await rename(part, path);
    return written;
  } catch (failure) {
    if (part !== path) await rm(part, { force: true });
    throw failure;
  }
}

function failed(command: string, text: string, { stderr }: CallHost, exitCode: ExitCode = EXIT_CODE.failed): ExitCode {
  stderr(`nereid replay ${command}: ${text.replace(/\s*[\r\n]+\s*/g, ' ')}\n`);
  return exitCode;
}
