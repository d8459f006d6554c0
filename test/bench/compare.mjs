#!/usr/bin/env node
/**
 * Nereid beside the real Triton (Python backend), `add_sub` over HTTP binary, in alternating turns.
 *
 *   node test/bench/compare.mjs [--turns 5] [--seconds 3] [--concurrency 1,64] [--json FILE]
 *
 * Needs Go for the load generator, and test/bench/triton/setup.sh run once (or ORACLE_VENV naming
 * its environment); without Triton that column says "not run". Only ratios of one run mean much.
 */
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { CLI, ROOT } from '../../deploy/setup/checkout.mjs';
import { becomesReady } from '../../deploy/setup/ready.mjs';
import { freePorts } from '../free-ports.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const START_LIMIT_MS = 60_000;

const { values: options } = parseArgs({
  options: {
    turns: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '1,64' },
    json: { type: 'string' },
  },
});

function buildLoadGenerator() {
  const folder = join(here, 'loadgen');
  const built = spawnSync('go', ['build', '-o', 'loadgen', '.'], { cwd: folder, stdio: 'inherit' });
  if (built.status !== 0) throw new Error('the load generator did not build: install Go 1.22 or later');
  return join(folder, 'loadgen');
}

function writeBody(folder) {
  const floats = (values) => Buffer.from(Float32Array.from(values).buffer);
  const header = JSON.stringify({
    inputs: ['INPUT0', 'INPUT1'].map((name) => ({
      name,
      shape: [4],
      datatype: 'FP32',
      parameters: { binary_data_size: 16 },
    })),
    parameters: { binary_data_output: true },
  });
  const file = join(folder, 'body.bin');
  writeFileSync(file, Buffer.concat([Buffer.from(header), floats([1, 2, 3, 4]), floats([5, 6, 7, 8])]));
  return { file, headerLength: header.length };
}

async function start(name, command, args, port) {
  const child = spawn(command, args, { stdio: 'ignore', env: process.env });
  if (!(await becomesReady(`http://127.0.0.1:${port}`, () => child.exitCode !== null, START_LIMIT_MS))) {
    child.kill('SIGTERM');
    throw new Error(
      `${name} is not ready: ${child.exitCode === null ? 'still starting' : `it ended with ${child.exitCode}`}`,
    );
  }
  return {
    name,
    port,
    pid: child.pid,
    stop: () => new Promise((resolve) => child.once('exit', resolve) && child.kill('SIGTERM')),
  };
}

function startNereid(folder, ports) {
  cpSync(join(ROOT, 'test/conformance/repo/onnx/add_sub'), join(folder, 'nereid/add_sub'), { recursive: true });
  return start(
    'nereid',
    process.execPath,
    [
      CLI,
      'serve',
      `--model-repository=${join(folder, 'nereid')}`,
      `--http-port=${ports[0]}`,
      `--metrics-port=${ports[1]}`,
      '--log-info=false',
    ],
    ports[0],
  );
}

function startTriton(ports) {
  return start(
    'triton',
    join(here, 'triton/triton.sh'),
    [join(here, 'triton/repo'), `--http-port=${ports[0]}`, `--grpc-port=${ports[1]}`, `--metrics-port=${ports[2]}`],
    ports[0],
  );
}

function turn(loadgen, body, server, concurrency) {
  const run = spawnSync(
    loadgen,
    [
      '-mode',
      'http',
      '-addr',
      `127.0.0.1:${server.port}`,
      '-path',
      '/v2/models/add_sub/infer',
      '-body',
      body.file,
      '-H',
      `Inference-Header-Content-Length: ${body.headerLength}`,
      '-expect',
      'OUTPUT0',
      '-c',
      String(concurrency),
      '-d',
      options.seconds,
      '-w',
      '0.5',
      '-pid',
      String(server.pid),
    ],
    { encoding: 'utf8' },
  );
  if (run.status !== 0) throw new Error(`${server.name}: ${run.stderr}`);
  return JSON.parse(run.stdout);
}

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const range = (values) =>
  `${median(values).toFixed(3)} (${Math.min(...values).toFixed(3)}–${Math.max(...values).toFixed(3)})`;

const folder = mkdtempSync(join(tmpdir(), 'nereid-bench-'));
const servers = [];
try {
  const loadgen = buildLoadGenerator();
  const body = writeBody(folder);
  const ports = await freePorts(5);
  servers.push(await startNereid(folder, ports.slice(0, 2)));
  const venv = process.env.ORACLE_VENV ?? join(here, 'triton/venv');
  if (existsSync(join(venv, 'bin/python'))) {
    process.env.ORACLE_VENV = venv;
    servers.push(await startTriton(ports.slice(2)));
  } else console.log('real Triton: not run (test/bench/triton/setup.sh installs it)');

  const rows = [];
  for (const concurrency of options.concurrency.split(',').map(Number)) {
    const results = Object.fromEntries(servers.map(({ name }) => [name, []]));
    for (let round = 0; round < Number(options.turns); round++) {
      const order = round % 2 === 0 ? servers : servers.toReversed();
      for (const server of order) results[server.name].push(turn(loadgen, body, server, concurrency));
    }
    const row = { concurrency };
    for (const [name, runs] of Object.entries(results)) {
      const errors = runs.reduce((sum, run) => sum + run.errors, 0);
      row[name] = { p50_ms: median(runs.map((run) => run.p50_ms)), rps: median(runs.map((run) => run.rps)), errors };
      console.log(
        `c=${concurrency} ${name}: p50 ms ${range(runs.map((run) => run.p50_ms))}, req/s ${range(runs.map((run) => run.rps))}, server CPU ${range(runs.map((run) => run.srv_cpu))}, errors ${errors}`,
      );
    }
    if (row.triton !== undefined) {
      row.p50_ratio = row.nereid.p50_ms / row.triton.p50_ms;
      row.rps_ratio = row.nereid.rps / row.triton.rps;
      console.log(
        `c=${concurrency} nereid / Triton (Python backend): p50 ${row.p50_ratio.toFixed(2)}, throughput ${row.rps_ratio.toFixed(2)}`,
      );
    }
    rows.push(row);
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
} finally {
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
}
