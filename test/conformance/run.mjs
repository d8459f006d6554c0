import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { CACHE, VENV as OUR_VENV } from '../../deploy/setup/checkout.mjs';
import { commandOptions } from '../command-options.mjs';
import { deploy } from '../deployment.mjs';
import { replayRecordings } from './recordings.mjs';
import { becomes, CONFORMANCE, PORTS, selectCases, selectModels, setUpFlags } from './selection.mjs';

// Serves the recorded models on free ports, one set-up of the server after the other, and runs the recorded cases of
// what is served yet. Mode `one` is one process; `apart` a Redis, two gateways, a coordinator and two workers, each
// model on one of these.
//   node test/conformance/run.mjs [--mode one|apart] [--also MODEL,…] [--case GLOB]... [--list] [--verbose] [--journal on]
// `--journal on` records all that the cases ask, and replays each recording behind the cases of its set-up; those that
// differ, or cannot run, count as failed but where `recordings.mjs` says why.
// `--also` names the Python models whose cases run too, on their JavaScript ports; without it that is all of these.
// The last line is "N passed, N failed"; the exit code is 1 if any failed.

const VENV = process.env.ORACLE_VENV ?? OUR_VENV;
/** Cases at a time, where they do not disturb each other. */
const JOBS = 4;
/** So many times fewer cases, and calls of official clients, are tried behind each gateway but the first. */
const FURTHER_EVERY = 10;
/** Models that share a resource of their worker. */
const TOGETHER = [['limited_a', 'limited_b']];
/** The set-up that the official clients are tried on. */
const CLIENTS_SET_UP = 'none';

const { values: options } = commandOptions({
  usage:
    'node test/conformance/run.mjs [--mode one|apart] [--also MODEL,…] [--case GLOB]... [--list] [--verbose] [--journal on]',
  options: {
    mode: { type: 'string', default: 'one' },
    also: { type: 'string', default: PORTS.join(',') },
    case: { type: 'string', multiple: true },
    journal: { type: 'string', default: 'off' },
    list: { type: 'boolean' },
    verbose: { type: 'boolean' },
  },
});
const records = options.journal === 'on';
const LOG = join(CACHE, 'logs', `conformance-${options.mode}-servers.log`);
process.exitCode = await main();

async function main() {
  if (!['one', 'apart'].includes(options.mode)) {
    console.error(`--mode=${options.mode} is not allowed: give one or apart`);
    return 2;
  }
  if (!['on', 'off'].includes(options.journal)) {
    console.error(`--journal=${options.journal} is not allowed: give on or off`);
    return 2;
  }
  const also = options.also.split(',').filter((name) => name !== '');
  const unknown = also.filter((name) => !PORTS.includes(name));
  if (unknown.length > 0) {
    console.error(`--also=${unknown.join(',')} has no port: there are ${PORTS.join(',')}`);
    return 2;
  }
  const selected = selectCases(options.case, also);
  if (selected.names.length === 0 && selected.leftOut.size === 0) {
    console.error(`--case=${options.case?.join(' --case=')} names no case: --list shows all`);
    return 2;
  }
  if (options.list) return printAll(selected);
  for (const [why, left] of selected.leftOut) console.log(`${left.length} left out, ${why}`);
  const python = join(VENV, 'bin', 'python');
  if (!existsSync(python)) {
    console.error(`${python} is not there: npm test makes it, or name another environment in ORACLE_VENV`);
    return 1;
  }
  return runAll(selected.setUps, python);
}

function printAll({ setUps, leftOut }) {
  for (const [setUp, names] of setUps) for (const name of names) console.log(`${name} (set-up ${setUp})`);
  for (const [why, left] of leftOut) for (const name of left) console.log(`left out, ${why}: ${name}`);
  return 0;
}

async function runAll(setUps, python) {
  const folder = mkdtempSync(join(tmpdir(), 'nereid-conformance-'));
  mkdirSync(dirname(LOG), { recursive: true });
  rmSync(LOG, { force: true });
  const results = [];
  try {
    for (const [setUp, names] of setUps) {
      const repository = join(folder, setUp);
      for (const model of selectModels(setUp)) cpSync(model, join(repository, basename(model)), { recursive: true });
      results.push(...(await serveAndCheck({ setUp, names, repository, python })));
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const sum = (key) => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed`);
  return sum('failed') === 0 ? 0 : 1;
}

async function serveAndCheck({ setUp, names, repository, python }) {
  let served;
  try {
    served = await deploy(options.mode, [repository], flagsOf(setUp), TOGETHER, becomes(setUp));
  } catch (error) {
    console.error(`set-up ${setUp}: ${error.message}`);
    return [{ passed: 0, failed: names.length }];
  }
  const stop = () => void served.stop();
  process.once('SIGTERM', stop).once('SIGINT', stop);
  try {
    const results = await check({ setUp, names, python }, served);
    if (records) results.push(await replayRecordings(served.http, setUp));
    return results;
  } finally {
    const endings = await served.stop();
    process.off('SIGTERM', stop).off('SIGINT', stop);
    const output = ({ output }, index) => `== ${setUp}: ${served.processes[index].role}\n${output}\n`;
    appendFileSync(LOG, endings.map(output).join(''));
  }
}

function flagsOf(setUp) {
  return records ? [...setUpFlags(setUp), '--journal=on'] : setUpFlags(setUp);
}

/** @returns {Promise<{ passed: number, failed: number }[]>} */
async function check({ setUp, names, python }, { gateways, metrics }) {
  const results = [];
  for (const [index, gateway] of gateways.entries()) {
    // Gateways are the same code over the same cluster: behind each further one a part of the cases will do.
    const every = index === 0 ? 1 : FURTHER_EVERY;
    const asked = names.filter((_, at) => at % every === 0);
    results.push(await runPython(python, ['check.py', ...checkArguments(setUp, asked, gateway, metrics)]));
    // The official clients are asked only with all cases.
    if (options.case !== undefined || setUp !== CLIENTS_SET_UP) continue;
    const at = ['--http', new URL(gateway.http).host, '--grpc', gateway.grpc, '--every', every];
    results.push(await runPython(python, ['client.py', ...at]));
  }
  return results;
}

function checkArguments(setUp, names, { http, grpc }, metrics) {
  return [
    ...['--http', http, '--grpc', grpc, '--metrics', metrics],
    ...['--server', setUp, '--variant', 'onnx', '--also', options.also, '--jobs', JOBS],
    ...['--except', join(CONFORMANCE, 'except.txt')],
    ...(options.verbose ? ['--verbose'] : []),
    ...names.flatMap((name) => ['--case', name]),
  ];
}

/** Runs a checker; prints all that it says but its last line, the counts. */
async function runPython(python, args) {
  const env = { ...process.env, ORACLE_VENV: VENV };
  const checker = spawn(python, args.map(String), { cwd: CONFORMANCE, stdio: ['ignore', 'pipe', 'inherit'], env });
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
