import { spawnSync } from 'node:child_process';
import { existsSync, openSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { printable } from './printable.ts';
import { recordingText } from './recording-text.ts';
import { RECORDING } from './replay-fixture.ts';
import { renderTable } from './table.ts';

it.each([
  ['a\nb\tc é …', 'a\nb\tc é …'],
  ['id \u001b[2J\r\u0007 \u009b31m \u202e', 'id \\u001b[2J\\u000d\\u0007 \\u009b31m \\u202e'],
  ['\r\u001b[Kstep 3\r\u001b[K', '\r\u001b[Kstep 3\\u000d\\u001b[K'],
])('a terminal gets no commands from what is printed: %j', (text, shown) => {
  expect(printable(text)).toBe(shown);
});

it('an id with line ends makes no lines of its own', () => {
  expect(renderTable(['Id', 'Of'], [['a\nb', 'c']]).split('\n')[3]).toBe('| a\\nb | c  |');
  const recording = { ...RECORDING, sequence_id: '5\nstate      ended' };
  expect(recordingText(recording)).toContain('sequence   5\\nstate      ended\n');
});

it('JSON stays what it is', () => {
  const value = { id: 'a\u001b\u009b\u202e\r\n' };
  expect(JSON.parse(printable(JSON.stringify(value)))).toEqual(value);
});

it.skipIf(!existsSync('/dev/full'))('a command whose output finds no room fails and says so', () => {
  const main = fileURLToPath(new URL('../dist/main.js', import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, [main, '--version'], {
    stdio: ['ignore', openSync('/dev/full', 'w'), 'pipe'],
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([1, expect.stringMatching(/^nereid: standard output: ENOSPC[^\n]*\n$/)]);
});
