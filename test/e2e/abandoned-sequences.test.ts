import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runScript } from '../command.mjs';
import { createModelFolder, type ModelFolder } from './model-folder.ts';

const COUNT = 10_000;
/** More than ended sequences of which is remembered that they have been. */
const WARM_UP = 5_000;
const MIB = 2 ** 20;
/** 10,000 things of 2 KiB would be 20 MiB. */
const GROWTH_BYTES_MAX = 8 * MIB;
/** Of the whole process, with the heap of its instance: 10,000 states of 16 KiB would be 160 MiB. */
const RSS_GROWTH_BYTES_MAX = 80 * MIB;
const LIMIT_MS = 120_000;

interface Look {
  readonly sequences: number;
  readonly heapUsed: number;
  readonly external: number;
  readonly arrayBuffers: number;
  readonly rss: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** Keeps a count for each sequence, and a state that would be noticed if it stayed. */
const COUNTS = `
  export const execute = (requests) => requests.map(({ state }) => {
    const count = state.get('BEFORE').data[0] + 1;
    return {
      outputs: { VALUE: { datatype: 'INT32', shape: [1, 1], data: Int32Array.of(count) } },
      state: { AFTER: { datatype: 'INT32', shape: [1, 4096], data: new Int32Array(4096).fill(count) } },
    };
  });`;
const SEQUENCES = `
  sequence_batching {
    max_sequence_idle_microseconds: 50000
    oldest { max_candidate_sequences: 256 }
    state [ {
      input_name: "BEFORE", output_name: "AFTER", data_type: TYPE_INT32, dims: [ 4096 ]
      initial_state: { name: "zeros", data_type: TYPE_INT32, dims: [ 4096 ], zero_data: true }
    } ]
  }`;

let folder: ModelFolder;

beforeAll(() => {
  folder = createModelFolder();
  folder.addJavaScript('counts', COUNTS, SEQUENCES, { maxBatchSize: 64 });
});
afterAll(() => {
  folder.remove();
});

test(
  '10,000 sequences that are begun and left give back their slots, their state and their memory',
  async () => {
    const script = fileURLToPath(new URL('./abandoned-sequences.mjs', import.meta.url));
    const { code, output } = await runScript(script, [folder.path, 'counts', String(WARM_UP), String(COUNT)]).ended;
    expect(code, output).toBe(0);
    const { before, after, left } = JSON.parse(output.split('\n').findLast((line) => line.startsWith('{')) ?? '') as {
      before: Look;
      after: Look;
      left: Look['counts'];
    };
    expect(after.sequences).toBe(0);
    expect(after.counts).toEqual(before.counts);
    expect(left).toEqual({ waiting: 0, queued: 0, running: 0, batches: 0, timers: 0 });
    for (const name of ['heapUsed', 'external', 'arrayBuffers'] as const) {
      expect(after[name] - before[name], name).toBeLessThan(GROWTH_BYTES_MAX);
    }
    expect(after.rss - before.rss, 'rss').toBeLessThan(RSS_GROWTH_BYTES_MAX);
  },
  LIMIT_MS,
);
