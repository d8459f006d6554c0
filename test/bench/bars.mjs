#!/usr/bin/env node
/**
 * What must hold, measured: each figure, its bar, pass or fail.
 *
 *   node test/bench/bars.mjs [batching] [minilm] [memory-one] [memory-apart] [guide] [guide-triton] [sequences] [pipeline] [bulk] [jobs] [jobs-single] [--turns 7] [--seconds 3] [--patience 120]
 *
 * Run it while nothing else runs: others' CPU is printed, and turns that they disturb are repeated.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { commandOptions, endWithUsage } from '../command-options.mjs';
import { batchingBar, minilmBar } from './bars-batching.mjs';
import { bulkBar } from './bars-bulk.mjs';
import { guideBar, guideBesideTriton } from './bars-guide.mjs';
import { jobsBar } from './bars-jobs.mjs';
import { memoryBar } from './bars-memory.mjs';
import { pipelineBar } from './bars-pipeline.mjs';
import { sequencesBar } from './bars-sequences.mjs';
import { loadGenerator } from './turns.mjs';

const BARS = {
  batching: batchingBar,
  minilm: minilmBar,
  'memory-one': (context) => memoryBar('one', context),
  'memory-apart': (context) => memoryBar('apart', context),
  guide: guideBar,
  'guide-triton': guideBesideTriton,
  sequences: sequencesBar,
  pipeline: pipelineBar,
  bulk: bulkBar,
  jobs: (context) => jobsBar('nothing', context),
  'jobs-single': (context) => jobsBar('add_sub', context),
};

const USAGE =
  'node test/bench/bars.mjs [batching] [minilm] [memory-one] [memory-apart] [guide] [guide-triton] [sequences] [pipeline] [bulk] [jobs] [jobs-single] [--turns 7] [--seconds 3] [--patience 120]';
const { values: options, positionals } = commandOptions({
  usage: USAGE,
  allowPositionals: true,
  options: {
    turns: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '120' },
  },
});
const names = positionals.length === 0 ? Object.keys(BARS) : positionals;
const unknown = names.find((name) => BARS[name] === undefined);
if (unknown !== undefined) endWithUsage(`${unknown} is none of ${Object.keys(BARS).join(', ')}`, USAGE);

const say = (text) => console.log(text);
const folder = mkdtempSync(join(tmpdir(), 'nereid-bars-'));
try {
  const generator = loadGenerator();
  for (const name of names) {
    const place = mkdtempSync(join(folder, 'bar-'));
    const [turns, seconds, patience] = [options.turns, options.seconds, options.patience].map(Number);
    const times = { turns, seconds, patience, warmUp: 0.5, firstWarmUp: 4 };
    for (const { what, figure, bar, holds } of await BARS[name]({ folder: place, generator, times, say })) {
      say(`${holds ? 'pass' : 'FAIL'}  ${what}: ${figure}, bar ${bar}`);
      if (!holds) process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
