/** One server-sent event. */
export interface ServerEvent {
  /** '' where it has none. */
  readonly id: string;
  readonly name: string;
  readonly data: string;
}

/**
 * Reads server-sent events as they come (HTML, 9.2.6); what has come of one at the end of the stream is dropped. Throws
 * what the stream throws.
 */
export async function* readEvents(stream: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, void> {
  const decoder = new TextDecoder();
  let rest = '';
  let fields: Record<string, string> = {};
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line !== '') {
        fields = withField(fields, line);
        continue;
      }
      const { id = '', event = 'message', data } = fields;
      fields = {};
      if (data !== undefined) yield { id, name: event, data };
    }
  }
}

/** A line that begins with a colon is a comment. */
function withField(fields: Record<string, string>, line: string): Record<string, string> {
  const [, name = '', value = ''] = /^([^:]*)(?:: ?(.*))?$/.exec(line) ?? [];
  if (name === '') return fields;
  const before = name === 'data' ? fields.data : undefined;
  return { ...fields, [name]: before === undefined ? value : `${before}\n${value}` };
}
