#!/usr/bin/env node
/**
 * Nereid beside raw session.run, the real Triton (Python backend) and other servers, in alternating turns.
 *
 *   pnpm bench [--quick] [--only ROWS,COLUMNS] [--json FILE] [--write] [--against FILE]
 *     [--turns 5] [--seconds 2] [--concurrency 1,64] [--builds NAME=FOLDER,…]
 *
 * `--only` names rows (rows.mjs) and columns (columns.mjs; raw). `--write` writes the tables of docs/performance.md, where
 * ratios that differ by more than 20 % from those of the report `--against` are marked. `--builds` adds each Nereid
 * column once more per checkout, as NAME:column. What is not there is "not run"; a wrong answer or an error fails the
 * run. docs/bench.md says what is installed for what. Only ratios of one run mean much.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandOptions } from '../command-options.mjs';
import { COLUMNS, isDefault } from './columns.mjs';
import { measure, missingModel, restWhereHot, startServers, writeModels } from './engine.mjs';
import { machine, versions } from './machine.mjs';
import { nereidColumns } from './nereid-columns.mjs';
import { estimateSeconds, plan, takesPart } from './plan.mjs';
import { compareReports } from './statistics.mjs';
import { writeTables } from './tables.mjs';
import { loadGenerator } from './turns.mjs';

/** What repeated turns may add to a run. */
const REPEATS_SHARE_MAX = 0.15;

const { values: options } = commandOptions({
  usage:
    'pnpm bench [--quick] [--only ROWS,COLUMNS] [--json FILE] [--write] [--against FILE] [--turns 5] [--seconds 2] [--concurrency 1,64] [--builds NAME=FOLDER,…]',
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    concurrency: { type: 'string', default: '' },
    turns: { type: 'string' },
    seconds: { type: 'string' },
    builds: { type: 'string', default: '' },
    json: { type: 'string' },
    write: { type: 'boolean', default: false },
    against: { type: 'string' },
  },
});

const listed = (text) => text.split(',').filter((name) => name !== '');
const optional = (text) => (text === undefined ? undefined : Number(text));
const say = (text) => console.log(text);

function wanted() {
  const builds = listed(options.builds).flatMap((build) => {
    const [name, folder] = build.split('=');
    return nereidColumns({ prefix: `${name}:`, cli: join(folder, 'packages/cli/dist/main.js') });
  });
  return plan({
    quick: options.quick,
    only: listed(options.only),
    concurrencies: listed(options.concurrency).map(Number),
    turns: optional(options.turns),
    seconds: optional(options.seconds),
    columns: [...COLUMNS, ...builds],
    isDefault: (column) => isDefault({ name: column.name.split(':').at(-1) }),
  });
}

function withoutMissingRows(of, models, generator) {
  const notRun = {};
  for (const { row } of of.cells) {
    const why = missingModel(models, row);
    if (why !== undefined && notRun[row.name] === undefined) say(`${row.title}: not run (${why})`);
    if (why !== undefined) notRun[row.name] = why;
  }
  const hasRow = of.cells.filter(({ row }) => notRun[row.name] === undefined);
  const cells = hasRow.filter(({ encoding }) => encoding !== 'grpc' || generator.grpc);
  if (cells.length < hasRow.length) {
    notRun.gRPC = 'the generator in Node is for HTTP only: install Go 1.22 or later';
    say(`gRPC: not run (${notRun.gRPC})`);
  }
  // A column that serves none of them is not started.
  const columns = of.columns.filter((column) => cells.some((cell) => takesPart(column, cell)));
  return { chosen: { ...of, cells, columns }, rowsNotRun: notRun };
}

const minutes = (seconds) => `${(seconds / 60).toFixed(1)} minutes`;

const folder = mkdtempSync(join(tmpdir(), 'nereid-bench-'));
let servers = [];
try {
  const began = performance.now();
  const models = writeModels(join(folder, 'models'));
  const generator = loadGenerator();
  const { chosen, rowsNotRun } = withoutMissingRows(wanted(), models, generator);
  const about = {
    started: new Date().toISOString(),
    machine: machine(),
    versions: versions(),
    generator: generator.name,
  };
  say(
    `${chosen.cells.length} cells: about ${minutes(estimateSeconds(chosen))}, load by the generator in ${generator.name}`,
  );
  const started = await startServers(chosen.columns, { models, folder, say });
  servers = started.servers;
  servers = await restWhereHot(servers, say);
  const running = { ...chosen, columns: servers.map(({ column }) => column) };
  const repeatSeconds = estimateSeconds(running) * REPEATS_SHARE_MAX;
  say(
    `with what runs here: about ${minutes(estimateSeconds(running))}, and ${minutes(repeatSeconds)} for turns that others disturb`,
  );
  const cells = await measure(chosen, { servers, models, folder, generator, repeatSeconds, say });
  const seconds = (performance.now() - began) / 1000;
  const notRun = { ...rowsNotRun, ...started.notRun };
  const report = { ...about, quick: options.quick, times: chosen.times, took_s: seconds, notRun, cells };
  say(`${minutes(seconds)} in all`);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
  if (options.write) {
    const against = options.against === undefined ? undefined : JSON.parse(readFileSync(options.against, 'utf8'));
    writeTables(report, against === undefined ? undefined : compareReports(report, against));
  }
} finally {
  for (const server of servers) server.wake?.();
  await Promise.all(servers.map((server) => server.stop()));
  rmSync(folder, { recursive: true, force: true });
}
