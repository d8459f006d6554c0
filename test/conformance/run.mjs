import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { CACHE, CLI, VENV as OUR_VENV } from '../../deploy/setup/checkout.mjs';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { freePorts } from '../free-ports.mjs';
import { CONFORMANCE, selectCases, selectModels } from './selection.mjs';

// Serves the recorded models on free ports and runs the recorded cases of what is served yet.
//   node test/conformance/run.mjs [--case GLOB]... [--list] [--verbose]
// The last line is "N passed, N failed"; the exit code is 1 if any failed.

const VENV = process.env.ORACLE_VENV ?? OUR_VENV;
const LOG = join(CACHE, 'logs', 'conformance-server.log');
const READY_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 20_000;

const { values: options } = parseArgs({
  options: { case: { type: 'string', multiple: true }, list: { type: 'boolean' }, verbose: { type: 'boolean' } },
});
process.exitCode = await main();

async function main() {
  const { names, leftOut } = selectCases(options.case);
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
  const [http, grpc, metrics] = await freePorts(3);
  mkdirSync(dirname(LOG), { recursive: true });
  const log = openSync(LOG, 'w');
  const ports = [`--http-port=${http}`, `--grpc-port=${grpc}`, `--metrics-port=${metrics}`];
  const server = spawn(process.execPath, [CLI, 'serve', `--model-repository=${repository}`, ...ports], {
    cwd: folder,
    stdio: ['ignore', log, log],
  });
  const ended = once(server, 'exit');
  const stop = () => server.kill('SIGTERM');
  process.once('SIGTERM', stop).once('SIGINT', stop);
  try {
    const hasEnded = () => server.exitCode !== null || server.signalCode !== null;
    if (!(await becomesReady(`http://127.0.0.1:${http}`, hasEnded, READY_LIMIT_MS))) {
      console.error(`the server did not get ready: see ${LOG}`);
      console.log(`0 passed, ${names.length} failed`);
      return 1;
    }
    return await check(python, names, { http, grpc, metrics });
  } finally {
    stop();
    const killTimer = setTimeout(() => server.kill('SIGKILL'), STOP_LIMIT_MS);
    await ended;
    clearTimeout(killTimer);
  }
}

async function check(python, names, { http, grpc, metrics }) {
  const cases = [
    ...['--http', `http://127.0.0.1:${http}`, '--grpc', `127.0.0.1:${grpc}`],
    ...['--metrics', `http://127.0.0.1:${metrics}`, '--variant', 'onnx'],
    ...['--except', join(CONFORMANCE, 'except.txt')],
    ...(options.verbose ? ['--verbose'] : []),
    ...names.flatMap((name) => ['--case', name]),
  ];
  const results = [await runPython(python, ['check.py', ...cases])];
  // The official client is asked only with all cases.
  if (options.case === undefined) results.push(await runPython(python, ['client.py', '--http', `127.0.0.1:${http}`]));
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
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
