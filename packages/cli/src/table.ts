import { inOneLine } from './printable.ts';

/** A longer text of the last column goes on in the next line of its cell. */
const LAST_COLUMN_WIDTH_MAX = 96;

/** Lines of bounded width, broken at blanks where there are some. */
function wrapCell(text: string, widthMax: number): readonly string[] {
  return text
    .trimEnd()
    .split(/\r?\n/)
    .flatMap((line) => {
      const lines: string[] = [];
      let rest = line;
      while (rest.length > widthMax) {
        const blank = rest.lastIndexOf(' ', widthMax);
        const end = blank > 0 ? blank : widthMax;
        lines.push(rest.slice(0, end));
        rest = rest.slice(blank > 0 ? end + 1 : end);
      }
      return [...lines, rest];
    });
}

/** A table as Triton prints them, without a line end at its end. */
export function renderTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [
    head,
    ...rows.flatMap((row) =>
      wrapCell(row.at(-1) ?? '', LAST_COLUMN_WIDTH_MAX).map((text, index) => [
        ...row.slice(0, -1).map((cell) => (index === 0 ? inOneLine(cell) : '')),
        text,
      ]),
    ),
  ];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)));
  const rule = `+${widths.map((width) => '-'.repeat(width + 2)).join('+')}+`;
  const [first = '', ...body] = lines.map(
    (line) => `|${line.map((text, column) => ` ${text.padEnd(widths[column] ?? 0)} `).join('|')}|`,
  );
  return [rule, first, rule, ...body, ...(body.length === 0 ? [] : [rule])].join('\n');
}
