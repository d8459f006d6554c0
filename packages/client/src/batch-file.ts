/** The file of a batch in its many forms. */
import type { BlobRef } from './blobs.ts';
import { NereidError } from './error.ts';
import type { Body } from './http.ts';
import { type JobInput, jobData } from './job-data.ts';
import { isObject, jsonText } from './json.ts';

/** A request of a batch; `customId` is told with its result. */
export interface BatchLine extends Omit<JobInput, 'sequence'> {
  readonly customId?: string;
  /** How its outputs come; `b64`, which keeps each bit, without it. */
  readonly respond?: 'auto' | 'json' | 'b64';
}

/**
 * Lines: as a text, bytes, a Blob or File of JSON lines; as objects, of an array or of anything else that is iterated,
 * one by one or asynchronously; as a stream of bytes, such as a Node file's; or as a blob that was put.
 */
export type BatchFile =
  | string
  | Uint8Array
  | Blob
  | Iterable<BatchLine>
  | AsyncIterable<BatchLine | Uint8Array>
  | ReadableStream<Uint8Array>
  | { readonly blob: BlobRef };

export interface EncodedFile {
  readonly body: Body;
  readonly contentType: string;
  /** It can be sent once more. */
  readonly isKept: boolean;
  /** Of what is iterated while it is sent. */
  readonly source?: IteratedSource;
}

interface IteratedSource {
  /** What it threw, or what was wrong with one of its lines. */
  failure(): { readonly thrown: unknown } | undefined;
  /** Ends it where it is not at its end: `fetch` does not tell a body that nobody reads it any more. */
  leave(): void;
}

const LINES = 'application/jsonl';

/** Throws INVALID_ARG for what is none, and for a line that does not fit. */
export async function encodedFile(file: BatchFile): Promise<EncodedFile> {
  const kept = (body: Body, contentType = LINES): EncodedFile => ({ body, contentType, isKept: true });
  if (typeof file === 'string' || file instanceof Blob) return kept(file);
  if (file instanceof Uint8Array) return kept(file as Uint8Array<ArrayBuffer>);
  if (file instanceof ReadableStream) return { body: file, contentType: LINES, isKept: false };
  if (isObject(file) && 'blob' in file) return kept(jsonText({ input_blob: file.blob }), 'application/json');
  if (isObject(file) && Symbol.asyncIterator in file) {
    return { ...iterated(file as AsyncIterable<unknown>), contentType: LINES, isKept: false };
  }
  if (typeof file !== 'object' || file === null || !(Symbol.iterator in file)) {
    throw new NereidError('INVALID_ARG', 'a batch is a text, bytes, a Blob, a stream, requests one by one, or {blob}');
  }
  const lines: string[] = [];
  for (const line of file as Iterable<BatchLine>) lines.push(await lineText(line));
  return kept(new Blob(lines));
}

async function lineText(line: unknown): Promise<string> {
  if (!isObject(line)) {
    throw new NereidError(
      'INVALID_ARG',
      `a line must be a request {inputs, …}, got: ${typeof line}; give a text whole`,
    );
  }
  const { customId, respond, ...input } = line as unknown as BatchLine;
  const body = await jobData(input, respond === undefined ? {} : { respond }, undefined);
  return `${jsonText({ custom_id: customId, body })}\n`;
}

/** As much is made as is read. */
function iterated(file: AsyncIterable<unknown>): Required<Pick<EncodedFile, 'body' | 'source'>> {
  const parts = file[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let isLeft = false;
  let failure: { readonly thrown: unknown } | undefined;
  const leave = async () => {
    if (isLeft) return;
    isLeft = true;
    await parts.return?.();
  };
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await parts.next();
        if (done === true) controller.close();
        else controller.enqueue(value instanceof Uint8Array ? value : encoder.encode(await lineText(value)));
      } catch (thrown) {
        failure = { thrown };
        throw thrown;
      }
    },
    cancel: leave,
  });
  return { body, source: { failure: () => failure, leave: () => void leave().catch(() => {}) } };
}
