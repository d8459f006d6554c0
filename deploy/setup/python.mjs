import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { CACHE, ROOT, VENV } from './checkout.mjs';
import { errorLine, findProgram, logFile, runCommand } from './command.mjs';
import { step } from './progress.mjs';
import { hashOf, isStamped, removeStamp, writeStamp } from './stamp.mjs';

const REQUIREMENTS = join(ROOT, 'test', 'conformance', 'requirements.txt');
// ensurepip is what a Debian without python3-venv lacks.
const PROBE = 'import sys, venv, ensurepip; print(sys.executable, *sys.version_info[:2])';

/**
 * A virtual environment of our own in `.cache/venv`.
 *
 * @returns {Promise<{ python: string } | { missing: string }>} `missing` says what there is to install
 */
export async function ensurePython() {
  const found = findProgram('python3') ?? findProgram('python');
  if (found === undefined) return { missing: 'Python 3 with venv and pip is not on PATH' };
  const probe = await runCommand(found, ['-c', PROBE]);
  const [, executable, major, minor] = /^(.+) (\d+) (\d+)\s*$/m.exec(probe.output) ?? [];
  if (probe.code !== 0 || executable === undefined) {
    return { missing: `${found} lacks venv or pip (on Debian and Ubuntu: apt-get install -y python3-venv)` };
  }
  if (Number(major) < 3 || (Number(major) === 3 && Number(minor) < 9)) {
    return { missing: `Python 3.9 or later is needed, and ${found} is ${major}.${minor}` };
  }
  const python = join(VENV, 'bin', 'python');
  const key = hashOf({ texts: [CACHE, executable, major, minor] });
  if (isStamped('venv', key) && existsSync(python)) return { python };
  // A new environment has none of the packages that an old one had.
  removeStamp('python-packages');
  removeStamp('store-servers');
  const made = await step('making a Python environment', () =>
    runCommand(found, ['-m', 'venv', '--clear', VENV], { log: 'venv' }),
  );
  if (made.code !== 0) return { missing: `${found} -m venv failed: ${errorLine(made.output)} (${logFile('venv')})` };
  writeStamp('venv', key);
  return { python };
}

/** The pinned Python packages that the conformance checker needs. Answers like `ensurePython`. */
export async function ensurePythonPackages() {
  const environment = await ensurePython();
  if (environment.missing !== undefined) return environment;
  const { python } = environment;
  const version = await runCommand(python, ['-V']);
  const key = hashOf({ texts: [python, version.output], files: [REQUIREMENTS] });
  if (isStamped('python-packages', key) && existsSync(join(VENV, 'bin', 'pip'))) return { python };
  const args = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', REQUIREMENTS];
  const { code, output } = await step('installing the Python packages of the conformance checker', () =>
    runCommand(python, args, { log: 'python-packages' }),
  );
  if (code !== 0) return { missing: `pip failed: ${errorLine(output)} (${logFile('python-packages')})` };
  writeStamp('python-packages', key);
  return { python };
}
