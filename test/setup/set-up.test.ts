import { expect, test } from 'vitest';
import { errorLine, runCommand, SetupError } from '../../deploy/setup/command.mjs';
import { readVitestReport, vitestFilter } from '../../deploy/setup/test-stages.mjs';
import { checkNodeVersion } from '../../deploy/setup/tools.mjs';

test.each([
  ['20.19.0', true],
  ['20.20.2', true],
  ['22.0.0', true],
  ['100.1.0', true],
  ['20.18.3', false],
  ['18.20.8', false],
  ['9.99.0', false],
])('Node.js %s is taken: %s', (version, isTaken) => {
  if (isTaken) expect(() => checkNodeVersion(version)).not.toThrow();
  else expect(() => checkNodeVersion(version)).toThrow(/Node\.js 20\.19 or later is needed/);
});

test.each([
  ['pip', 'WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution\n', 'ERROR: Could not'],
  ['npm', 'npm warn old\nnpm error code E404\nnpm error A complete log is in …\n', 'npm error code E404'],
  ['apt-get', 'Reading package lists...\nE: Unable to locate package x\n', 'E: Unable to locate package x'],
  ['pnpm', 'Scope: all\n ERR_PNPM_OUTDATED_LOCKFILE  Cannot install\nNote\n', 'ERR_PNPM_OUTDATED_LOCKFILE'],
  [
    'Node.js',
    'node:internal:391\n  throw e\n\nError: ENOENT\n    at x\n  errno: -2\n}\n\nNode.js v20\n',
    'Error: ENOENT',
  ],
  ['a program of few words', 'one\ntwo\n\n', 'two'],
  ['a silent program', '\n', 'it printed nothing'],
])('the line that tells why %s failed', (_program, output, line) => {
  expect(errorLine(output)).toContain(line);
});

test('a program that is not there is code 127', async () => {
  expect((await runCommand('/nowhere/program', [])).code).toBe(127);
});

test('a program past its limit is ended with what it started, code 124', async () => {
  // The second process holds the first one's output open: the call can only return when both are gone.
  const wait = 'setInterval(() => {}, 1000)';
  const start = `require('node:child_process').spawn(process.execPath, ['-e', '${wait}'], { stdio: 'inherit' })`;
  const { code } = await runCommand(process.execPath, ['-e', `${start}; ${wait}`], { limitMs: 500 });
  expect(code).toBe(124);
});

test('a stop signal ends the running program and says so', async () => {
  const running = runCommand(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
  process.emit('SIGTERM', 'SIGTERM');
  const error = await running.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(SetupError);
  expect(error).toMatchObject({ exitCode: 143 });
});

test('the counts of a vitest report: failed files without a test count, skipped tests are named', () => {
  const result = readVitestReport({
    testResults: [
      {
        name: '/a.test.ts',
        status: 'failed',
        message: '',
        assertionResults: [
          { fullName: 'one', status: 'passed', failureMessages: [] },
          { fullName: 'two', status: 'failed', failureMessages: ['expected 1'] },
          { fullName: 'three', status: 'skipped', failureMessages: [] },
        ],
      },
      { name: '/b.test.ts', status: 'failed', message: 'does not parse', assertionResults: [] },
    ],
  });
  expect(result).toMatchObject({ passed: 1, failed: 2 });
  expect(result.failures[0]).toContain('expected 1');
  expect(result.failures[1]).toContain('does not parse');
  expect(result.notes).toEqual([expect.stringContaining('three')]);
});

test.each([
  [undefined, []],
  ['test/setup', ['test/setup']],
  ['set-up.test', ['set-up.test']],
  ['the counts of (a)', ['--testNamePattern', 'the counts of \\(a\\)']],
])('the filter %s', (filter, args) => {
  expect(vitestFilter(filter)).toEqual(args);
});
