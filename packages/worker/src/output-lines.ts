import { StringDecoder } from 'node:string_decoder';

/** A longer line is told in pieces. */
export const OUTPUT_LINE_CHARS_MAX = 8_192;

/** Cuts what a process writes into lines; `end` gives a last one without its end. Empty lines are left out. */
export function createOutputLines(take: (line: string) => void): { write(chunk: Uint8Array): void; end(): void } {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  const tell = (line: string) => {
    if (line.trim() === '') return;
    for (let at = 0; at < line.length; at += OUTPUT_LINE_CHARS_MAX) take(line.slice(at, at + OUTPUT_LINE_CHARS_MAX));
  };
  return {
    write(chunk) {
      const lines = (rest + decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))).split(
        /\r?\n/,
      );
      rest = lines.pop() ?? '';
      for (const line of lines) tell(line);
      while (rest.length > OUTPUT_LINE_CHARS_MAX) {
        tell(rest.slice(0, OUTPUT_LINE_CHARS_MAX));
        rest = rest.slice(OUTPUT_LINE_CHARS_MAX);
      }
    },
    end() {
      tell(rest + decoder.end());
      rest = '';
    },
  };
}
