import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PLACES = ['packages', 'test'];
const BUG_CASES: Readonly<Record<string, readonly string[]>> = JSON.parse(
  readFileSync(join(ROOT, 'test', 'bug-cases.json'), 'utf8'),
);

/** The test files of this checkout, and the calls of the official clients. */
function testFiles(): readonly string[] {
  const isTest = /(\.test\.ts|_calls\.py)$/;
  return PLACES.flatMap((place) =>
    readdirSync(join(ROOT, place), { recursive: true, encoding: 'utf8' })
      .filter((file) => isTest.test(file) && !/node_modules|dist\//.test(file))
      .map((file) => join(ROOT, place, file)),
  );
}

/** Ids that stand in the name of a test, or of a row of one. */
const named = new Set(testFiles().flatMap((file) => readFileSync(file, 'utf8').match(/\bBC-\d{3}\b/g) ?? []));

test.each(Object.entries(BUG_CASES))('every bug case about %s has a test', (_group, ids) => {
  expect(ids.filter((id) => !named.has(id))).toEqual([]);
});
