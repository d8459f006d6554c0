#!/usr/bin/env node
/**
 * Of two runs of the bench, which ratios between columns differ by at most 20 %, and which do not.
 *
 *   pnpm bench:compare A.json B.json [--write]
 *
 * `--write` writes the tables of docs/performance.md from A, with the others marked.
 */
import { readFileSync } from 'node:fs';
import { commandOptions, endWithUsage } from '../command-options.mjs';
import { compareReports } from './statistics.mjs';
import { writeTables } from './tables.mjs';

const USAGE = 'pnpm bench:compare A.json B.json [--write]';
const { values: options, positionals } = commandOptions({
  usage: USAGE,
  allowPositionals: true,
  options: { write: { type: 'boolean', default: false } },
});
if (positionals.length !== 2) endWithUsage('say which two runs', USAGE);

const [first, second] = positionals.map((file) => JSON.parse(readFileSync(file, 'utf8')));
const compared = compareReports(first, second);
const unstable = compared.filter(({ stable }) => !stable);
for (const { cell, figure, of, to, first: one, second: two } of unstable) {
  console.log(`unstable: ${cell}, ${figure}, ${of} / ${to}: ${one.toFixed(2)} and ${two.toFixed(2)}`);
}
const stable = compared.length - unstable.length;
const share = compared.length === 0 ? 0 : (100 * stable) / compared.length;
console.log(`${stable} of ${compared.length} ratios differ by at most 20 %: ${share.toFixed(1)} %`);
if (options.write) writeTables(first, compared);
