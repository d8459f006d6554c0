import { expect, it } from 'vitest';
import { modelRows, renderModelTable } from './model-table.ts';

it("is Triton's table, sorted by model, with states and reasons", () => {
  const rows = modelRows(
    [
      { name: 'simple', versions: [{ version: '1', state: 'READY', reason: '' }] },
      {
        name: 'broken',
        versions: [
          { version: '1', state: 'UNAVAILABLE', reason: 'Internal: no such file' },
          { version: '10', state: 'READY', reason: '' },
        ],
      },
      { name: 'empty', versions: [] },
    ],
    [
      { model: 'broken', error: { message: 'is in the records' } },
      { model: 'folder', error: { message: 'no version folder' } },
    ],
  );
  expect(renderModelTable(rows)).toBe(
    [
      '+--------+---------+----------------------------------------+',
      '| Model  | Version | Status                                 |',
      '+--------+---------+----------------------------------------+',
      '| broken | 1       | UNAVAILABLE: Internal: no such file    |',
      '| broken | 10      | READY                                  |',
      '| empty  | -       | Not loaded: No model version was found |',
      '| folder | -       | Not loaded: no version folder          |',
      '| simple | 1       | READY                                  |',
      '+--------+---------+----------------------------------------+',
    ].join('\n'),
  );
});

it('a long reason, or one of several lines, goes on below', () => {
  const reason = `Internal: ${'word '.repeat(30)}end\nsecond line`;
  const lines = renderModelTable([{ model: 'm', version: '1', status: `UNAVAILABLE: ${reason}` }]).split('\n');
  expect(new Set(lines.map((line) => line.length)).size).toBe(1);
  expect(lines[0]?.length).toBeLessThanOrEqual(120);
  expect(lines.filter((line) => line.startsWith('| m '))).toHaveLength(1);
  expect(lines.some((line) => line.includes('| second line '))).toBe(true);
  const status = lines.slice(3, -2).map((line) => line.split('|')[3]?.trim());
  expect(status.join(' ')).toBe(`UNAVAILABLE: ${reason.split('\n')[0]}`);
});

it('a word longer than the cell is cut, not lost', () => {
  const lines = renderModelTable([{ model: 'm', version: '1', status: 'x'.repeat(250) }]).split('\n');
  const cells = lines.slice(3, -1).map((line) => line.split('|')[3]?.trim());
  expect(cells.join('')).toBe('x'.repeat(250));
});

it('without models there is only the head', () => {
  expect(renderModelTable([]).split('\n')).toEqual([
    '+-------+---------+--------+',
    '| Model | Version | Status |',
    '+-------+---------+--------+',
  ]);
});
