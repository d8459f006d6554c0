import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { CONFORMANCE, PORTS, selectCases, selectModels, setUpFlags } from './selection.mjs';

const all = selectCases();

/** What becomes of a case: the set-up that it runs in, or why it is left out. */
function fate(name: string, selection = all): string | undefined {
  const place = [...selection.setUps, ...selection.leftOut].find(([, names]) => names.includes(name));
  return place?.[0];
}

test.each([
  ['json_http/simple', 'none'],
  ['restricted/index_with_key', 'restricted'],
  ['restricted/load_with_key', 'restricted'],
  ['repository_http/unload_waits_for_running_requests', 'explicit'],
  ['broken/index', 'broken'],
  ['forwarding/two_headers', 'forwarding'],
  ['tracing/get', 'tracing'],
  ['metadata_http/decoupled', 'none'],
  ['config_http/batch_ordered', 'none'],
  ['json_http/bytes_nul', 'for a Python model that has no port'],
  ['metrics/pending_requests_are_a_gauge', 'none'],
  ['metrics/rejections_have_a_reason', 'none'],
  ['generate/sequence', 'none'],
  ['sequence_http/oldest_sums', 'none'],
  ['sequence_grpc/direct_in_one_stream', 'none'],
  ['infer_grpc/ensemble', 'none'],
  ['statistics_http/ensemble_counts_its_steps', 'none'],
  // Its answer has an ensemble in it.
  ['repository_refused/index_grpc', 'none'],
  ['statistics_http/batched_requests_share_an_execution', 'none'],
  ['cache/second_request_hits', 'cache'],
])('%s: %s', (name, expected) => {
  expect(fate(name)).toBe(expected);
});

test('without ports their cases are left out', () => {
  const without = selectCases([], []);
  for (const name of ['forwarding/two_headers', 'stream_grpc/decoupled_three', 'errors_http/model_answers_error']) {
    expect(fate(name, without)).toBe('for a Python model that has no port');
  }
  expect(without.names.every((name) => all.names.includes(name))).toBe(true);
});

test('every case of a group runs, or is left out, once', () => {
  const groups = new Set(all.names.map((name) => name.split('/')[0]));
  const cases = [...groups].flatMap((group): { name: string }[] =>
    JSON.parse(readFileSync(join(CONFORMANCE, 'cases', `${group}.json`), 'utf8')),
  );
  const left = [...all.leftOut.values()].flat();
  expect([...all.names, ...left].sort()).toEqual(cases.map(({ name }) => name).sort());
  expect([...all.setUps.values()].flat().sort()).toEqual([...all.names].sort());
});

test('a glob selects by name', () => {
  const { names } = selectCases(['types_http/int8*']);
  expect(names.length).toBeGreaterThan(0);
  expect(names.every((name) => name.startsWith('types_http/int8'))).toBe(true);
});

test('every port is served, and every set-up has its flags', () => {
  const served = selectModels().map((folder) => basename(folder));
  expect(served).toEqual(expect.arrayContaining([...PORTS, 'simple']));
  expect(selectModels('broken').map((folder) => basename(folder))).toEqual(['broken']);
  expect(selectModels('explicit').map((folder) => basename(folder))).toEqual([...served, 'broken']);
  expect(readdirSync(join(CONFORMANCE, 'repo', 'javascript')).sort()).toEqual(PORTS);
  for (const setUp of all.setUps.keys()) expect(setUpFlags(setUp).length).toBeGreaterThan(0);
});

test('every exception is a case that runs, and docs/triton-differences.md explains it', () => {
  const lines = readFileSync(join(CONFORMANCE, 'except.txt'), 'utf8').split('\n');
  const names = lines.filter((line) => line !== '' && !line.startsWith('#')).map((line) => line.split(' ')[0] ?? '');
  const differences = readFileSync(join(CONFORMANCE, '..', '..', 'docs', 'triton-differences.md'), 'utf8');
  expect(names.filter((name) => !all.names.includes(name))).toEqual([]);
  expect(names.filter((name) => !differences.includes(`\`${name}\``))).toEqual([]);
});
