/** One server-sent event; `id` is the last that the stream has told. */
export interface ServerEvent {
  readonly type: string;
  readonly data: string;
  readonly id: string;
}

/** An event of more text than this is none of ours. */
const EVENT_LENGTH_MAX = 1 << 30;

/**
 * The events of a body (the HTML standard's server-sent events), each as soon as it is there. What the body ends with
 * in the middle of an event is left out. Leaving the loop cancels the body. Rejects where the connection breaks.
 */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const event = eventParser();
  let rest = '';
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A CR at the very end may be half of a line's end.
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? '';
      if (rest.length > EVENT_LENGTH_MAX) throw new RangeError('an event is too long');
      for (const line of lines) {
        const complete = event(line);
        if (complete !== undefined) yield complete;
      }
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Takes lines; gives an event at the empty line that ends it. */
function eventParser(): (line: string) => ServerEvent | undefined {
  let type = '';
  let data: string[] = [];
  let id = '';
  return (line) => {
    if (line === '') {
      const event = data.length === 0 ? undefined : { type: type === '' ? 'message' : type, data: data.join('\n'), id };
      type = '';
      data = [];
      return event;
    }
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === 'data') data.push(value);
    else if (name === 'event') type = value;
    else if (name === 'id' && !value.includes('\0')) id = value;
    return undefined;
  };
}
