#!/usr/bin/env node
/**
 * What must hold, measured: each figure, its bar, pass or fail.
 *
 *   node test/bench/bars.mjs [batching] [minilm] [memory-one] [memory-apart] [guide] [guide-triton] [sequences] [pipeline] [bulk] [jobs] [jobs-single] [journal] [malloc] [hot-swaps] [loads] [--turns 7] [--seconds 3] [--patience 120] [--base DIR]
 *
 * `--base` is for `journal`: another checkout, built, of a commit without one. That takes ten turns of 1 s.
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
import { journalBar } from './bars-journal.mjs';
import { hotSwapsBar, loadsBar } from './bars-loads.mjs';
import { mallocBar } from './bars-malloc.mjs';
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
  journal: journalBar,
  malloc: mallocBar,
  'hot-swaps': hotSwapsBar,
  loads: loadsBar,
};

const TIMES = { turns: 7, seconds: 3 };
/** Of a bar that needs others. */
const TIMES_OF = { journal: { turns: 10, seconds: 1 } };

const USAGE =
  'node test/bench/bars.mjs [batching] [minilm] [memory-one] [memory-apart] [guide] [guide-triton] [sequences] [pipeline] [bulk] [jobs] [jobs-single] [journal] [malloc] [hot-swaps] [loads] [--turns 7] [--seconds 3] [--patience 120] [--base DIR]';
const { values: options, positionals } = commandOptions({
  usage: USAGE,
  allowPositionals: true,
  options: {
    turns: { type: 'string' },
    seconds: { type: 'string' },
    patience: { type: 'string', default: '120' },
    base: { type: 'string' },
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
    const usual = { ...TIMES, ...TIMES_OF[name] };
    const [turns, seconds] = ['turns', 'seconds'].map((which) => Number(options[which] ?? usual[which]));
    const times = { turns, seconds, patience: Number(options.patience), warmUp: 0.5, firstWarmUp: 4 };
    for (const { what, figure, bar, holds } of await BARS[name]({
      folder: place,
      generator,
      times,
      base: options.base,
      say,
    })) {
      say(`${holds ? 'pass' : 'FAIL'}  ${what}: ${figure}, bar ${bar}`);
      if (!holds) process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
