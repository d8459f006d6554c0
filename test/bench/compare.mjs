#!/usr/bin/env node
/**
 * Nereid beside the real Triton (Python backend), in alternating turns.
 *
 *   node test/bench/compare.mjs [--rows add_sub,batches] [--columns one,apart,triton] [--turns 5] [--seconds 3]
 *     [--concurrency 1,64] [--builds NAME=FOLDER,…] [--base COLUMN] [--profiles FOLDER] [--json FILE]
 *
 * Columns are those of columns.mjs; `--builds` adds each Nereid column once more per checkout, as NAME:column, to
 * compare two builds. Ratios are to `--base`. Needs Go for the load generator, and test/bench/triton/setup.sh run once
 * (or ORACLE_VENV naming its environment); without Triton that column says "not run". Only ratios of one run mean much.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { CLI } from '../../deploy/setup/checkout.mjs';
import { COLUMNS, missing } from './columns.mjs';
import { printRatios, printSummary, ratios, summary } from './report.mjs';
import { ROWS, writeModel, writeRequest } from './rows.mjs';
import { buildLoadGenerator, turn } from './turns.mjs';

const { values: options } = parseArgs({
  options: {
    rows: { type: 'string', default: 'add_sub' },
    columns: { type: 'string', default: 'one,apart,triton' },
    builds: { type: 'string', default: '' },
    base: { type: 'string', default: 'triton' },
    turns: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '1,64' },
    profiles: { type: 'string' },
    json: { type: 'string' },
  },
});

/** What is to be started: each column, and each Nereid column of each build. */
function wanted() {
  const names = options.columns.split(',');
  const unknown = names.find((name) => COLUMNS[name] === undefined);
  if (unknown !== undefined) throw new Error(`--columns: ${unknown} is none of ${Object.keys(COLUMNS).join(', ')}`);
  const own = names.map((name) => ({ name, column: name, cli: CLI }));
  const builds = options.builds.split(',').flatMap((build) => {
    if (build === '') return [];
    const [name, folder] = build.split('=');
    const cli = join(folder, 'packages/cli/dist/main.js');
    return names.filter((column) => column !== 'triton').map((column) => ({ name: `${name}:${column}`, column, cli }));
  });
  return [...own, ...builds];
}

async function startAll(folder, row) {
  const repository = mkdtempSync(join(folder, 'models-'));
  writeModel(row, repository);
  const servers = [];
  try {
    for (const { name, column, cli } of wanted()) {
      if (column === 'triton' && !row.triton) continue;
      const why = missing(column);
      if (why !== undefined) {
        console.log(`${COLUMNS[column].title}: not run (${why})`);
        continue;
      }
      const profiles = options.profiles === undefined ? undefined : join(options.profiles, name.replace(':', '-'));
      const place = mkdtempSync(join(folder, 'place-'));
      const started = await COLUMNS[column].start({ cli, model: row.model, repository, place, profiles });
      servers.push({ name, ...started });
    }
  } catch (error) {
    await Promise.all(servers.map((server) => server.stop()));
    throw error;
  }
  return servers;
}

/** Each server's turns; the order is turned round every time. */
async function takeTurns(servers, shared) {
  const runs = Object.fromEntries(servers.map(({ name }) => [name, []]));
  for (let round = 0; round < Number(options.turns); round++) {
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      runs[server.name].push(await turn({ ...shared, server, seconds: Number(options.seconds) }));
    }
  }
  return runs;
}

const folder = mkdtempSync(join(tmpdir(), 'nereid-bench-'));
let servers = [];
try {
  const loadgen = buildLoadGenerator();
  const report = { node: process.version, cores: cpus().length, rows: [] };
  for (const rowName of options.rows.split(',')) {
    const row = ROWS[rowName];
    if (row === undefined) throw new Error(`--rows: ${rowName} is none of ${Object.keys(ROWS).join(', ')}`);
    const request = writeRequest(row, folder);
    servers = await startAll(folder, row);
    for (const concurrency of options.concurrency.split(',').map(Number)) {
      const load_before = loadavg()[0];
      const runs = await takeTurns(servers, { loadgen, request, concurrency });
      const columns = Object.fromEntries(Object.entries(runs).map(([name, of]) => [name, summary(of)]));
      const label = `${rowName} c=${concurrency}`;
      for (const [name, of] of Object.entries(columns)) printSummary(`${label} ${name}`, of);
      const compared = ratios(runs, options.base);
      printRatios(label, compared);
      report.rows.push({ row: rowName, concurrency, load_before, columns, ratios: compared });
    }
    await Promise.all(servers.map((server) => server.stop()));
    servers = [];
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
} finally {
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
}
