import { createLog, type LogSettings } from '@nereid/runtime';
import { describe, expect, it } from 'vitest';
import { logDestination, lowestLevel, startLogSettings } from './log-destination.ts';
import { parseLogLine, renderLogLine } from './log-format.ts';

const TIME = Date.UTC(2026, 10, 29, 11, 15, 47, 733);

function record(level: number, msg: string, fields: Record<string, unknown> = {}) {
  return { level, time: TIME, msg, fields };
}

describe("a line in Triton's format", () => {
  it.each([
    ['info', record(30, 'text'), 'I1129 11:15:47.733000 13498 nereid] "text"'],
    ['verbose is I', record(10, 'text'), 'I1129 11:15:47.733000 13498 nereid] "text"'],
    ['warning', record(40, 'text'), 'W1129 11:15:47.733000 13498 nereid] "text"'],
    ['error', record(50, 'text'), 'E1129 11:15:47.733000 13498 nereid] "text"'],
    ['fatal is E', record(60, 'text'), 'E1129 11:15:47.733000 13498 nereid] "text"'],
    ['its component', record(30, 'text', { component: 'http' }), 'I1129 11:15:47.733000 13498 http] "text"'],
    ['escapes', record(30, 'a "b"\nc'), 'I1129 11:15:47.733000 13498 nereid] "a \\"b\\"\\nc"'],
    [
      'fields after the text, those of the process left out',
      record(30, 'done', { node: 'n', role: 'gateway', request_id: '7', model: 'simple', rows: 3 }),
      'I1129 11:15:47.733000 13498 nereid] "done" request_id="7" model="simple" rows=3',
    ],
    [
      'an error with its stack in one line',
      record(50, 'failed', { err: { type: 'Error', message: 'no', stack: 'Error: no\n  at x' } }),
      'E1129 11:15:47.733000 13498 nereid] "failed" err="Error: no\\n  at x"',
    ],
    [
      'an error without a stack by its text',
      record(50, 'failed', { err: { type: 'Object', message: 'no', stack: '' } }),
      'E1129 11:15:47.733000 13498 nereid] "failed" err="no"',
    ],
    [
      'a table unquoted under its line',
      record(30, '', { table: '+--+\n|a |\n+--+' }),
      'I1129 11:15:47.733000 13498 nereid] \n+--+\n|a |\n+--+',
    ],
  ])('%s', (_rule, line, text) => {
    expect(renderLogLine(line, 'default', 13_498)).toBe(text);
  });

  it('ISO8601', () => {
    expect(renderLogLine(record(40, 'text'), 'ISO8601', 13_498)).toBe('2026-11-29T11:15:47Z W 13498 nereid] "text"');
  });
});

it.each(['', 'null', '7', '{}', '{"level":30}', 'not json'])('%j is no line of the log', (line) => {
  expect(parseLogLine(line)).toBeUndefined();
});

const FLAGS = {
  logLevel: 'info',
  logVerbose: 0,
  logInfo: true,
  logWarning: true,
  logError: true,
  logFormat: 'default',
} as const;

describe('which levels are written', () => {
  it.each<[Partial<Parameters<typeof startLogSettings>[0]>, string]>([
    [{}, 'error warn info'],
    [{ logInfo: false }, 'error warn'],
    [{ logWarning: false }, 'error info'],
    [{ logError: false }, 'warn info'],
    [{ logInfo: false, logWarning: false, logError: false }, ''],
    [{ logVerbose: 1 }, 'error warn info debug'],
    [{ logVerbose: 2 }, 'error warn info debug trace'],
    [{ logLevel: 'error' }, 'error'],
    [{ logLevel: 'warn' }, 'error warn'],
    [{ logLevel: 'debug' }, 'error warn info debug'],
    [{ logLevel: 'trace' }, 'error warn info debug trace'],
    [{ logLevel: 'trace', logInfo: false }, 'error warn debug trace'],
    [{ logLevel: 'warn', logVerbose: 1 }, 'error warn debug'],
  ])('%j: %s', (flags, levels) => {
    const { written } = logThrough(startLogSettings({ ...FLAGS, ...flags }), 'text');
    expect(written.map((line) => /"(\w+)"$/.exec(line)?.[1]).join(' ')).toBe(levels);
  });
});

/** One line of each level through a log with these settings. */
function logThrough(settings: LogSettings, output: 'text' | 'json') {
  const low: string[] = [];
  const high: string[] = [];
  const written: string[] = [];
  const destination = logDestination({
    settings: () => settings,
    output,
    pid: 1,
    low: (text) => void (low.push(text) && written.push(text.trimEnd())),
    high: (text) => void (high.push(text) && written.push(text.trimEnd())),
  });
  const log = createLog({ level: lowestLevel(settings), bindings: { node: 'n1' }, destination });
  for (const level of ['error', 'warn', 'info', 'debug', 'trace'] as const) log[level](level);
  return { low, high, written };
}

it('info goes to the low, warnings and errors to the high output, each line ended once', () => {
  const { low, high } = logThrough(startLogSettings(FLAGS), 'text');
  expect(low).toEqual([expect.stringMatching(/^I\d{4} [\d:.]{15} 1 nereid\] "info"\n$/)]);
  expect(high).toEqual([expect.stringMatching(/^E.*"error"\n$/), expect.stringMatching(/^W.*"warn"\n$/)]);
});

it('json output is one object a line with the fields of the process', () => {
  const { low, high } = logThrough(startLogSettings(FLAGS), 'json');
  expect(low).toHaveLength(1);
  expect(low[0]).toMatch(/^[^\n]+\n$/);
  expect(JSON.parse(low[0] ?? '')).toMatchObject({ level: 30, msg: 'info', node: 'n1' });
  expect(high).toHaveLength(2);
});
