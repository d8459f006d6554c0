import { parseOptions } from '@nereid/config';
import { expect, test } from 'vitest';
import { openLog } from './open-log.ts';

function opened(flags: readonly string[] = []) {
  const parsed = parseOptions({ argv: ['--model-repository=/m', ...flags], env: {}, readFile: () => '' });
  if (!parsed.ok) throw new Error(parsed.error);
  const lines: string[] = [];
  const write = (text: string) => void lines.push(text);
  const host = { pid: 7, hostName: 'host', stdout: write, stderr: write, openLogFile: () => write };
  const log = openLog('serve', parsed.options, host);
  if (!log.ok) throw new Error(log.error);
  return { ...log, lines };
}

test('the log begins as its flags say', () => {
  const { control } = opened(['--log-info=false', '--log-verbose=1', '--log-format=ISO8601', '--log-file=/var/log/n']);
  expect([control.file, control.start]).toEqual([
    '/var/log/n',
    { info: false, warning: true, error: true, verboseLevel: 1, format: 'ISO8601' },
  ]);
});

test('a change of the settings holds from the next line on, also of what was made before', () => {
  const { log, control, lines } = opened();
  const written = (...levels: readonly ('warn' | 'info' | 'debug' | 'trace')[]) => {
    lines.length = 0;
    for (const level of levels) log[level](level);
    return lines.map((line) => /"(\w+)"\n$/.exec(line)?.[1]);
  };
  expect(written('warn', 'info', 'debug', 'trace')).toEqual(['warn', 'info']);
  control.apply({ ...control.start, verboseLevel: 1 });
  expect(written('warn', 'info', 'debug', 'trace')).toEqual(['warn', 'info', 'debug']);
  control.apply({ ...control.start, info: false, warning: false, verboseLevel: 2 });
  expect(written('warn', 'info', 'debug', 'trace')).toEqual(['debug', 'trace']);
  control.apply({ ...control.start, format: 'ISO8601' });
  expect(written('info')).toEqual(['info']);
  expect(lines[0]).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ I 7 nereid\] /);
  control.apply(control.start);
  expect(written('warn', 'info', 'debug')).toEqual(['warn', 'info']);
});
