#!/usr/bin/env node
/**
 * Where the time and the memory of each role go at full load: a flame graph of each thread (SVG), the bytes that it
 * allocates per request with the functions that allocate most, and the Redis commands per request.
 *
 * What V8 calls `dispatch` in an instance's thread is mostly its wait for the next batch.
 *
 * With `--jobs` those of one process whose jobs of that model a BullMQ producer adds.
 *
 *   pnpm bench:profile [FOLDER] [--row add_sub] [--encoding binary] [--concurrency 64] [--seconds 5] [--columns one,apart] [--jobs nothing|add_sub]
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { commandOptions, endWithUsage } from '../command-options.mjs';
import { freePorts } from '../free-ports.mjs';
import { allocations } from './allocations.mjs';
import { modelIn, startNereid, withProducer } from './bars-jobs.mjs';
import { COLUMNS } from './columns.mjs';
import { withRedis, writeModels } from './engine.mjs';
import { flameGraph, hottest, profileTree } from './flame-graph.mjs';
import { samplesOf, writeRequests } from './requests.mjs';
import { ROWS } from './rows.mjs';
import { loadGenerator, turn } from './turns.mjs';

const WARM_UP_S = 4;
const SETTLE_MS = 300;
const FUNCTIONS = 8;

const USAGE =
  'pnpm bench:profile [FOLDER] [--row add_sub] [--encoding binary] [--concurrency 64] [--seconds 5] [--columns one,apart] [--jobs nothing|add_sub]';
const { values: options, positionals } = commandOptions({
  usage: USAGE,
  allowPositionals: true,
  options: {
    row: { type: 'string', default: 'add_sub' },
    encoding: { type: 'string', default: 'binary' },
    concurrency: { type: 'string', default: '64' },
    seconds: { type: 'string', default: '5' },
    columns: { type: 'string', default: 'one,apart' },
    jobs: { type: 'string' },
  },
});

const out = resolve(positionals[0] ?? 'bench-profiles');
const row = ROWS[options.row];
if (row === undefined) endWithUsage(`--row: ${options.row} is none of ${Object.keys(ROWS).join(', ')}`, USAGE);
const summary = [];
const say = (line) => {
  console.log(line);
  summary.push(line);
};

/** A column that is asked by the load generator: `{ server, title, load, stop }`. */
async function askedColumn(name, { models, folder, generator, samples }) {
  const column = COLUMNS.find((each) => each.name === name);
  if (column === undefined)
    throw new Error(`--columns: ${name} is none of ${COLUMNS.map((each) => each.name).join(', ')}`);
  const [port] = await freePorts(1);
  const place = join(folder, name);
  mkdirSync(place);
  const server = await withRedis(await column.start({ port, models, place, profiles: join(out, name) }));
  const requests = writeRequests({ column, row, encoding: options.encoding, samples, folder: place });
  const shared = {
    generator,
    server,
    requests,
    concurrency: Number(options.concurrency),
    file: join(place, 'answers'),
  };
  return {
    server,
    title: `${column.title}, ${options.row} ${options.encoding}`,
    load: (seconds) => turn({ ...shared, seconds, warmUp: 0 }),
    stop: () => server.stop(),
  };
}

/** One process whose jobs a BullMQ producer adds. */
async function producedJobs(name, { models, folder, samples }) {
  const place = join(folder, name);
  mkdirSync(place);
  const side = await withProducer(name, await startNereid({ models, place, profiles: join(out, name) }), {
    model: options.jobs,
    samples,
  });
  return {
    server: side.server,
    title: `jobs of ${options.jobs}`,
    load: (seconds) => side.turn({ concurrency: Number(options.concurrency), seconds, warmUp: 0 }),
    stop: side.stop,
  };
}

/** Runs what `start` starts at full load twice: once for the CPU, once for the heap. */
async function profile(name, start, context) {
  const profiles = join(out, name);
  rmSync(profiles, { recursive: true, force: true });
  const { server, title, load: run, stop } = await start(name, context);
  try {
    const roles = Object.entries(server.pids).filter(([role]) => role !== 'redis');
    /** Every thread of every role begins to record, or has written what it recorded. */
    const signal = async (isOver) => {
      for (const [, pid] of roles) process.kill(pid, 'SIGUSR2');
      const areRecording = () => roles.map(([role]) => isRecording(join(profiles, role)));
      while (areRecording().some((is) => is === isOver)) await delay(SETTLE_MS);
    };
    const load = async () => {
      await signal(false);
      const figures = await run(Number(options.seconds));
      await signal(true);
      if (figures.errors > 0) throw new Error(`${figures.errors} errors (${figures.last_error})`);
      return figures;
    };
    await run(WARM_UP_S);
    const cpu = await load();
    const heap = await load();
    say(`${title}, ${options.concurrency} clients: ${cpu.rps.toFixed(0)} requests/s while profiled`);
    if (cpu.commands !== undefined) {
      const names = Object.entries(cpu.commands.by_name).map(([command, calls]) => `${command} ${calls.toFixed(2)}`);
      say(
        `  Redis commands per request: ${cpu.commands.called.toFixed(2)} called, ${cpu.commands.all.toFixed(2)} with those of scripts (${names.join(', ')})`,
      );
    }
    for (const [role] of roles) writeRole(join(profiles, role), { title: `${name}, ${role}`, cpu, heap });
  } finally {
    await stop();
  }
}

function isRecording(folder) {
  return readdirSync(folder).some((file) => file.endsWith('.recording'));
}

function writeRole(folder, { title, cpu, heap }) {
  const files = readdirSync(folder).toSorted();
  const read = (file) => JSON.parse(readFileSync(join(folder, file), 'utf8'));
  for (const file of files.filter((each) => each.endsWith('.cpuprofile'))) {
    const thread = file.replace('.cpuprofile', '');
    const tree = profileTree(read(file));
    writeFileSync(join(folder, `${thread}.svg`), flameGraph(`${title}, ${thread}`, tree));
    const busy = tree.total / cpu.all;
    say(`  ${title}, ${thread}: ${busy.toFixed(1)} us of its thread per request`);
    for (const { name, place, self } of hottest(tree, FUNCTIONS)) {
      say(`      ${((100 * self) / tree.total).toFixed(1)} % ${name} ${place}`);
    }
    const { bytes, by } = allocations(read(`${thread}.heapprofile`));
    say(`    allocates ${(bytes / heap.all).toFixed(0)} bytes per request`);
    for (const { name, place, bytes: own } of by.slice(0, FUNCTIONS)) {
      say(`      ${(own / heap.all).toFixed(0)} bytes ${name} ${place}`);
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), 'nereid-profile-'));
try {
  mkdirSync(out, { recursive: true });
  const models = join(folder, 'models');
  if (options.jobs === undefined) {
    writeModels(models);
    // An instance's thread that only waits would be in the way.
    for (const other of readdirSync(models)) {
      if (other !== row.model) rmSync(join(models, other), { recursive: true });
    }
    const context = { models, folder, generator: loadGenerator(), samples: await samplesOf(models, row.model) };
    for (const name of options.columns.split(',')) await profile(name, askedColumn, context);
  } else {
    const samples = await modelIn(models, options.jobs);
    await profile('jobs', producedJobs, { models, folder, samples });
  }
  writeFileSync(join(out, 'summary.txt'), `${summary.join('\n')}\n`);
  console.log(`flame graphs and summary.txt are in ${out}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
