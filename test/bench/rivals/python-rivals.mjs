import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CACHE } from '../../../deploy/setup/checkout.mjs';
import { errorLine, findProgram, runCommand } from '../../../deploy/setup/command.mjs';
import { hashOf, isStamped, writeStamp } from '../../../deploy/setup/stamp.mjs';

const REQUIREMENTS = fileURLToPath(new URL('./requirements.txt', import.meta.url));
const VENV = join(CACHE, 'bench-venv');
const STAMP = 'bench-venv';

/** The interpreter that has the Python servers' packages. */
export const RIVAL_PYTHON = join(VENV, 'bin', 'python');

const key = () => hashOf({ texts: [VENV], files: [REQUIREMENTS] });

/** Why the Python servers cannot run here, or undefined. */
export async function missingPythonRivals() {
  if (isStamped(STAMP, key()) && existsSync(RIVAL_PYTHON)) return undefined;
  return 'node test/bench/rivals/install.mjs installs it';
}

/**
 * Makes the environment with the pinned packages.
 *
 * @returns {Promise<string | undefined>} what hindered it
 */
export async function installPythonRivals() {
  if ((await missingPythonRivals()) === undefined) return undefined;
  const python = findProgram('python3');
  if (python === undefined) return 'Python 3 is not on PATH';
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS];
  for (const [program, ...args] of [
    [python, '-m', 'venv', '--clear', VENV],
    [RIVAL_PYTHON, ...pip],
  ]) {
    const { code, output } = await runCommand(program, args, { log: 'bench-venv' });
    if (code !== 0) return `${readFileSync(REQUIREMENTS, 'utf8').trim().split('\n').join(', ')}: ${errorLine(output)}`;
  }
  writeStamp(STAMP, key());
  return undefined;
}
