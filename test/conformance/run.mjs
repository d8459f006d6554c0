import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { CACHE, VENV as OUR_VENV } from '../../deploy/setup/checkout.mjs';
import { deploy } from '../deployment.mjs';
import { CONFORMANCE, selectCases, selectModels } from './selection.mjs';

// Serves the recorded models on free ports and runs the recorded cases of what is served yet. Mode `one` is one
// process; `apart` a Redis, two gateways, a coordinator and two workers, each model on one of these.
//   node test/conformance/run.mjs [--mode one|apart] [--case GLOB]... [--list] [--verbose]
// The last line is "N passed, N failed"; the exit code is 1 if any failed.

const VENV = process.env.ORACLE_VENV ?? OUR_VENV;
/** So many times fewer cases are run behind each gateway but the first. */
const FURTHER_EVERY = 10;

const { values: options } = parseArgs({
  options: {
    mode: { type: 'string', default: 'one' },
    case: { type: 'string', multiple: true },
    list: { type: 'boolean' },
    verbose: { type: 'boolean' },
  },
});
const LOG = join(CACHE, 'logs', `conformance-${options.mode}.log`);
process.exitCode = await main();

async function main() {
  if (!['one', 'apart'].includes(options.mode)) {
    console.error(`--mode=${options.mode} is not allowed: give one or apart`);
    return 2;
  }
  const { names, leftOut } = selectCases(options.case);
  if (names.length === 0 && leftOut.size === 0) {
    console.error(`--case=${options.case?.join(' --case=')} names no case: --list shows all`);
    return 2;
  }
  if (options.list) return printAll(names, leftOut);
  for (const [why, left] of leftOut) console.log(`${left.length} left out, ${why}`);
  if (names.length === 0) {
    console.log('0 passed, 0 failed');
    return 0;
  }
  const python = join(VENV, 'bin', 'python');
  if (!existsSync(python)) {
    console.error(`${python} is not there: npm test makes it, or name another environment in ORACLE_VENV`);
    return 1;
  }
  const folder = mkdtempSync(join(tmpdir(), 'nereid-conformance-'));
  try {
    return await serveAndCheck(folder, python, names);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function printAll(names, leftOut) {
  for (const name of names) console.log(name);
  for (const [why, left] of leftOut) for (const name of left) console.log(`left out, ${why}: ${name}`);
  return 0;
}

async function serveAndCheck(folder, python, names) {
  const repository = join(folder, 'models');
  for (const model of selectModels()) cpSync(model, join(repository, basename(model)), { recursive: true });
  let served;
  try {
    served = await deploy(options.mode, [repository]);
  } catch (error) {
    console.error(error.message);
    console.log(`0 passed, ${names.length} failed`);
    return 1;
  }
  const stop = () => void served.stop();
  process.once('SIGTERM', stop).once('SIGINT', stop);
  try {
    return await check(python, names, served);
  } finally {
    const endings = await served.stop();
    mkdirSync(dirname(LOG), { recursive: true });
    writeFileSync(LOG, endings.map(({ output }, index) => `== ${served.processes[index].role}\n${output}`).join('\n'));
  }
}

async function check(python, names, { gateways, metrics }) {
  const results = [];
  for (const [index, { http }] of gateways.entries()) {
    // Gateways are the same code over the same cluster: behind each further one a part of the cases will do.
    const asked = index === 0 ? names : names.filter((_, at) => at % FURTHER_EVERY === 0);
    results.push(await runPython(python, ['check.py', ...casesOf(asked, http, metrics)]));
    // The official client is asked only with all cases.
    if (options.case === undefined) results.push(await runPython(python, ['client.py', '--http', new URL(http).host]));
  }
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
}

function casesOf(names, http, metrics) {
  return [
    ...['--http', http, '--metrics', metrics, '--variant', 'onnx'],
    ...['--except', join(CONFORMANCE, 'except.txt')],
    ...(options.verbose ? ['--verbose'] : []),
    ...names.flatMap((name) => ['--case', name]),
  ];
}

/** Runs a checker; prints all that it says but its last line, the counts. */
async function runPython(python, args) {
  const env = { ...process.env, ORACLE_VENV: VENV };
  const checker = spawn(python, args, { cwd: CONFORMANCE, stdio: ['ignore', 'pipe', 'inherit'], env });
  const chunks = [];
  checker.stdout.on('data', (chunk) => chunks.push(chunk));
  const [code] = await once(checker, 'close');
  const output = Buffer.concat(chunks).toString();
  const counts = /(\d+) passed, (\d+) failed\s*$/.exec(output);
  process.stdout.write(counts === null ? output : output.slice(0, counts.index));
  if (counts === null) return { passed: 0, failed: 1 };
  const [passed, failed] = [Number(counts[1]), Number(counts[2])];
  return { passed, failed: code !== 0 && failed === 0 ? 1 : failed };
}
