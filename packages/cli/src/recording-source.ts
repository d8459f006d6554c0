import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { type JournalFile, type RecordedStep, readJournalFile } from '@nereid/protocol';
import { openCall } from './open-call.ts';
import { recordingPath } from './recordings.ts';
import type { CallHost } from './server-call.ts';

/** What is here already, or is read to its end for one command, needs no bounds but the memory's. */
const UNBOUNDED = { steps_max: Number.MAX_SAFE_INTEGER, bytes_max: Number.MAX_SAFE_INTEGER };

/** Whether it names a file, not a recording of a server. */
export function isFileName(name: string): boolean {
  return /\.nrj(?:\.gz)?$/.test(name) || existsSync(name);
}

/** Rejects where it cannot be opened. */
export async function fileStream(path: string): Promise<ReadableStream<Uint8Array>> {
  const handle = await open(path, 'r');
  if ((await handle.stat()).isDirectory()) {
    await handle.close();
    throw new Error('it is a folder');
  }
  return Readable.toWeb(handle.createReadStream()) as ReadableStream<Uint8Array>;
}

/** The recording of a file. Rejects, naming it, where it cannot be read or is none. */
export function fileRecording(path: string): Promise<JournalFile> {
  return named(path, async () => readJournalFile(await fileStream(path), UNBOUNDED));
}

/** A server's recording, as its export brings it. Rejects where there is none, or what comes is none. */
export function serverRecording(url: string, id: string, host: CallHost): Promise<JournalFile> {
  return named(id, async () => {
    const opened = await openCall({ url, method: 'GET', path: `${recordingPath(id)}/export` }, host);
    if (!opened.ok) throw new Error(opened.text);
    return readJournalFile(opened.body, UNBOUNDED);
  });
}

async function named(name: string, read: () => Promise<JournalFile>): Promise<JournalFile> {
  const file = await read().catch((thrown) => rethrow(name, thrown));
  return { ...file, steps: namedSteps(name, file.steps) };
}

async function* namedSteps(name: string, steps: JournalFile['steps']): AsyncGenerator<RecordedStep, void> {
  try {
    yield* steps;
  } catch (thrown) {
    rethrow(name, thrown);
  }
}

function rethrow(name: string, thrown: unknown): never {
  throw new Error(`${name}: ${(thrown as Error).message}`, { cause: thrown });
}
