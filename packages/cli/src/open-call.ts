import {
  adminHeaders,
  type CallHost,
  noServer,
  parsed,
  refusalOf,
  type ServerCall,
  targetOf,
  wrongUrl,
} from './server-call.ts';

/** A call whose answer, or what is sent, may last: no limit is on its time. */
export interface OpenCall extends Pick<ServerCall, 'url' | 'method' | 'path' | 'query'> {
  readonly body?: string | ReadableStream<Uint8Array> | undefined;
}

export type Opened =
  | { readonly ok: true; readonly body: ReadableStream<Uint8Array> }
  | { readonly ok: false; readonly text: string };

/** Asks a server's HTTP API for what is read as it comes; the caller says what goes wrong. */
export async function openCall({ url, method, path, query, body }: OpenCall, host: CallHost): Promise<Opened> {
  const target = targetOf(url, path, query);
  if (target === undefined) return { ok: false, text: wrongUrl(url) };
  try {
    const response = await host.fetch(target, {
      method,
      headers: adminHeaders(host),
      ...(body === undefined ? {} : { body }),
      // Asked for by those that can send a stream; TypeScript's DOM does not know it yet.
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    });
    if (response.ok && response.body !== null) return { ok: true, body: response.body };
    return { ok: false, text: refusalOf(url, response.status, parsed(await response.text())) };
  } catch (failure) {
    return { ok: false, text: noServer(url, failure) };
  }
}

/** The values of lines of JSON, each as soon as its line is whole; empty lines say that the server is there. Throws what the stream throws. */
export async function* jsonLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let held: string[] = [];
  for await (const bytes of stream) {
    const [first = '', ...others] = decoder.decode(bytes, { stream: true }).split('\n');
    held.push(first);
    for (const next of others) {
      const line = held.join('').trim();
      held = [next];
      if (line !== '') yield line;
    }
  }
}
