import { expect, test } from 'vitest';
import { createOutputLines, OUTPUT_LINE_CHARS_MAX } from './output-lines.ts';

const linesOf = (...chunks: readonly (string | Buffer)[]) => {
  const lines: string[] = [];
  const output = createOutputLines((line) => lines.push(line));
  for (const chunk of chunks) output.write(Buffer.from(chunk));
  output.end();
  return lines;
};
const star = Buffer.from('✓');

test.each([
  ['lines', ['a\nb\n'], ['a', 'b']],
  ['a line in pieces', ['a', 'b', '\nc\n'], ['ab', 'c']],
  ['a last line without its end', ['a\nb'], ['a', 'b']],
  ['empty lines', ['\n\n  \na\n'], ['a']],
  ['a carriage return', ['a\r\nb\r\n'], ['a', 'b']],
  ['a character in pieces', [star.subarray(0, 1), star.subarray(1)], ['✓']],
  ['a line longer than the log takes', [`${'x'.repeat(8193)}\n`], ['x'.repeat(8192), 'x']],
  ['a line without an end', ['x'.repeat(2 * OUTPUT_LINE_CHARS_MAX + 1)], [8192, 8192, 1].map((n) => 'x'.repeat(n))],
])('%s', (_what, chunks, lines) => {
  expect(linesOf(...chunks)).toEqual(lines);
});
