import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { CACHE, ROOT, ROOT_BIN, toolEnvironment, VENV } from './checkout.mjs';
import { runCommand } from './command.mjs';
import { filesBelow, packageFolders } from './stamp.mjs';

const FAILURE_LINES_MAX = 60;
/** So many skipped tests of a file are named. */
const NAMES_MAX = 3;

/**
 * What a stage found. `failures` are texts to print; `notes` are lines about what was not run.
 *
 * @typedef {{ passed: number, failed: number, failures: string[], notes: string[] }} StageResult
 */

const lines = (text, count) => text.trimEnd().split('\n').slice(0, count).join('\n');

/** A stage that is one program, and counts as one. @returns {Promise<StageResult>} */
export async function programStage(program, args) {
  const { code, output } = await runCommand(join(ROOT_BIN, program), args);
  if (code === 0) return { passed: 1, failed: 0, failures: [], notes: [] };
  return { passed: 0, failed: 1, failures: [lines(output, FAILURE_LINES_MAX)], notes: [] };
}

/** vitest over the given filter arguments. @returns {Promise<StageResult>} */
export async function vitestStage(filterArgs) {
  const report = join(CACHE, 'vitest.json');
  rmSync(report, { force: true });
  const args = ['run', '--reporter=json', `--outputFile=${report}`, '--passWithNoTests', ...filterArgs];
  const { code, output } = await runCommand(join(ROOT_BIN, 'vitest'), args, { log: 'vitest' });
  if (!existsSync(report)) {
    return {
      passed: 0,
      failed: 1,
      failures: [`vitest gave no report:\n${lines(output, FAILURE_LINES_MAX)}`],
      notes: [],
    };
  }
  const result = readVitestReport(JSON.parse(readFileSync(report, 'utf8')));
  // An error outside of any test (an unhandled rejection) fails the run without failing a test.
  if (code !== 0 && result.failed === 0) {
    return { ...result, failed: 1, failures: [lines(output, FAILURE_LINES_MAX)] };
  }
  return result;
}

const shortList = (names) => `${names.slice(0, NAMES_MAX).join('; ')}${names.length > NAMES_MAX ? '; …' : ''}`;

/** @returns {StageResult} */
export function readVitestReport({ testResults }) {
  const failures = [];
  const notes = [];
  let passed = 0;
  for (const { name, status, message, assertionResults } of testResults) {
    const file = relative(ROOT, name);
    const failedBefore = failures.length;
    const notRun = [];
    for (const test of assertionResults) {
      if (test.status === 'passed') passed += 1;
      else if (test.status === 'failed') failures.push(`${file}: ${test.fullName}\n${test.failureMessages.join('\n')}`);
      else notRun.push(test.fullName.trim());
    }
    if (notRun.length > 0) notes.push(`${notRun.length} not run in ${file}: ${shortList(notRun)}`);
    if (status === 'failed' && failures.length === failedBefore) failures.push(`${file}\n${message}`);
  }
  return { passed, failed: failures.length, failures: failures.map((text) => lines(text, FAILURE_LINES_MAX)), notes };
}

/** The recorded cases, in mode `one` or `apart`. @returns {Promise<StageResult>} */
export async function conformanceStage(mode, globs) {
  const script = join(ROOT, 'test', 'conformance', 'run.mjs');
  const env = toolEnvironment({ ORACLE_VENV: VENV });
  const args = [script, '--mode', mode, ...globs.flatMap((glob) => ['--case', glob])];
  const { code, output } = await runCommand(process.execPath, args, { env, log: `conformance-${mode}` });
  const [, passed, failed] = /(\d+) passed, (\d+) failed\s*$/.exec(output) ?? [];
  if (passed === undefined) return { passed: 0, failed: 1, failures: [lines(output, FAILURE_LINES_MAX)], notes: [] };
  const notes = output.split('\n').filter((line) => / left out, | different on purpose$/.test(line));
  const isNote = (line) => notes.includes(line) || /\d+ passed, \d+ failed$/.test(line);
  const rest = output.split('\n').filter((line) => line !== '' && !isNote(line));
  return {
    passed: Number(passed),
    failed: Number(failed) + (code !== 0 && failed === '0' ? 1 : 0),
    failures: code === 0 ? [] : [rest.join('\n')],
    notes,
  };
}

/** Arguments for vitest: a part of a test file's path selects files, anything else selects tests by name. */
export function vitestFilter(filter) {
  if (filter === undefined) return [];
  const isTest = (file) => file.endsWith('.test.ts') && !file.includes('node_modules');
  const folders = [...packageFolders().map((folder) => join(folder, 'src')), join(ROOT, 'test')];
  const files = folders.flatMap((folder) => filesBelow(folder, isTest)).map((file) => relative(ROOT, file));
  if (files.some((file) => file.includes(filter))) return [filter];
  return ['--testNamePattern', filter.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')];
}
