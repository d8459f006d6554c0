import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { type ReportCell, summary, type Turn } from './statistics.mjs';
import { type Report, replaceBetween, tablesOf } from './tables.mjs';

const BEGIN = '<!-- bench: written by pnpm bench --write, do not edit -->';
const END = '<!-- bench: end -->';

describe('replaceBetween', () => {
  test('the text around stays', () => {
    expect(replaceBetween(`before\n${BEGIN}\nold\n${END}\nafter\n`, 'new\n')).toBe(
      `before\n${BEGIN}\n\nnew\n\n${END}\nafter\n`,
    );
  });

  test.each([
    ['none', 'text'],
    ['only the first', `${BEGIN} text`],
    ['the wrong way round', `${END} ${BEGIN}`],
    ['twice', `${BEGIN}${END}${BEGIN}${END}`],
  ])('throws where the markers are %s', (_, text) => {
    expect(() => replaceBetween(text, 'new')).toThrow('once each');
  });

  test('the page has them', () => {
    const page = readFileSync(new URL('../../docs/performance.md', import.meta.url), 'utf8');
    expect(replaceBetween(page, 'new')).toContain('new');
  });
});

describe('tablesOf', () => {
  const column = (rps: number) => {
    const turn: Turn = {
      p50_ms: 0.5,
      p99_ms: 2,
      rps,
      other_cpu: 0.25,
      errors: 0,
      checked: 3,
      disturbed: false,
      repeated: 0,
      cpu_us: { serve: 40 },
    };
    return { summary: summary([turn]), turns: [turn] };
  };
  const cell: ReportCell = {
    row: 'mlp',
    title: '`mlp`',
    jobs: false,
    encoding: 'binary',
    concurrency: 1,
    columns: { 'raw 16': column(9000), one: column(12345.6), triton: column(10000) },
  };
  const report: Report = {
    started: '2026-11-29T10:00:00.000Z',
    generator: 'Go',
    machine: { cpu: 'CPU', cores: 2, memory_gib: 24, kernel: '6' },
    versions: { node: 'v20', fastify: '5', bullmq: '6', 'onnxruntime-node': '1', commit: 'abc' },
    times: { turns: 1, seconds: 2 },
    notRun: { mosec: 'no Python' },
    cells: [cell],
  };
  const text = tablesOf(report);

  test.each([
    ['Triton with its backend, and that others are faster', 'its C++ backends are faster'],
    ['figures with their range', '| `mlp` | binary | 1 | 12,346 (12,346–12,346) | 10,000 (10,000–10,000) |'],
    ['small figures with digits', '| 0.50 (0.50–0.50) |'],
    ['raw by batch', '| `mlp` | 1 | 16 | 0.500 | 9,000 |'],
    ['ratios', '| `mlp` | binary | 1 | 1.23 |'],
    ['what is not run, and why', 'mosec: not run (no Python).'],
  ])('%s', (_, expected) => {
    expect(text).toContain(expected);
  });

  test('marks what a second run does not repeat', () => {
    const compared = [
      { cell: 'mlp binary c=1', figure: 'rps', of: 'one', to: 'triton', first: 1.23, second: 2, stable: false },
      { cell: 'mlp binary c=1', figure: 'p50_ms', of: 'one', to: 'triton', first: 1, second: 1, stable: true },
    ];
    const marked = tablesOf(report, compared);
    expect(marked).toContain('| `mlp` | binary | 1 | 1.23† |');
    expect(marked).toContain('| `mlp` | binary | 1 | 1.00 |');
    expect(marked).toContain('50 % of all 2 ratios');
  });
});
