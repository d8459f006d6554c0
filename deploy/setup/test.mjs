import { ensureBrowser } from './browser.mjs';
import { setting } from './checkout.mjs';
import { ensureObjectStores } from './object-stores.mjs';
import { whenNpmEnds } from './parent.mjs';
import { secondsSince } from './progress.mjs';
import { ensurePythonPackages } from './python.mjs';
import { exitWith, setUp } from './setup.mjs';
import { conformanceStage, programStage, vitestFilter, vitestStage } from './test-stages.mjs';

// npm test -- FILTER: set-up, then every check. FILTER is a part of a test file's path or of a test's name, or a
// glob of recorded cases such as 'types_http/*'. The last line is "N passed, N failed".

const MODE_TITLES = { one: 'one process', apart: 'separate processes' };

/** They need a browser. */
const PAGE_TESTS = 'test/pages/**';
/** They need servers that speak clouds' protocols. */
const CLOUD_TESTS = 'test/cloud/**';

const arguments_ = process.argv.slice(2).filter((argument) => argument !== '--yes');
const [filter] = arguments_;
const mayInstall = process.argv.includes('--yes') || setting('CI') === 'true';

whenNpmEnds(() => process.kill(process.pid, 'SIGTERM'));
try {
  if (arguments_.length > 1) console.log(`only the first filter is used: ${filter}`);
  await setUp({ mayInstall });
  process.exitCode = (await runStages(await chooseStages())) ? 0 : 1;
} catch (error) {
  exitWith(error);
}

/** The stages to run, in order: { name, run, missing }, where `missing` says, or promises to say, why one cannot be run. */
async function chooseStages() {
  // Loaded late: its module reads files that an incomplete checkout lacks.
  const { selectCases } = await import('../../test/conformance/selection.mjs');
  const { MODES } = await import('../../test/deployment.mjs');
  const { hasRedis } = await import('../../test/private-redis.mjs');
  const globs = filter === undefined ? [] : [filter];
  const cases = selectCases(globs);
  const namesCases = filter !== undefined && cases.names.length + cases.leftOut.size > 0;
  const needsCases = filter === undefined || namesCases;
  // Downloaded while sources are looked at.
  const packages = needsCases ? ensurePythonPackages() : undefined;
  // Told when it is the turn of the cases.
  packages?.catch(() => {});
  // After them, since both go into one environment.
  const stores = Promise.resolve(packages)
    .catch(() => {})
    .then(() => (filter === undefined || filter.includes('cloud') ? ensureObjectStores() : {}));
  stores.catch(() => {});
  const stages = [];
  if (filter === undefined) {
    stages.push({ name: 'lint', run: () => programStage('biome', ['check', '--max-diagnostics=20', '.']) });
    stages.push({ name: 'types', run: () => programStage('tsc', ['-p', 'tsconfig.test.json']) });
    stages.push({ name: 'unused code', run: () => programStage('knip', []) });
  }
  if (!namesCases) {
    const { missing } = await ensureBrowser({ mayInstall });
    const withoutPages = missing === undefined ? [] : ['--exclude', PAGE_TESTS];
    const run = async () => {
      const { missing: missingStores } = await stores;
      const withoutClouds = missingStores === undefined ? [] : ['--exclude', CLOUD_TESTS];
      const result = await vitestStage([...vitestFilter(filter), ...withoutPages, ...withoutClouds]);
      if (missingStores === undefined) return result;
      return { ...result, notRun: `the tests of clouds were not run: ${missingStores}` };
    };
    stages.push({ name: 'tests', run });
    if (missing !== undefined) stages.push({ name: 'pages', missing: `the tests of pages were not run: ${missing}` });
  }
  if (packages !== undefined) {
    const caseStage = (mode) => {
      const name = `recorded cases (${MODE_TITLES[mode]})`;
      const missing = packages.then((found) => {
        const why = found.missing ?? (mode === 'apart' && !hasRedis() ? 'no Redis server is on PATH' : undefined);
        return why === undefined ? undefined : `${cases.names.length} ${name} were not run: ${why}`;
      });
      missing.catch(() => {});
      return { name, run: () => conformanceStage(mode, globs), missing };
    };
    stages.push(...MODES.map(caseStage));
  }
  return stages;
}

/** @returns {Promise<boolean>} whether nothing failed */
async function runStages(stages) {
  const notRun = [];
  let passed = 0;
  let failed = 0;
  const runStage = async (stage) => {
    const missing = await stage.missing;
    if (missing !== undefined) {
      notRun.push(missing);
      return;
    }
    const start = performance.now();
    console.log(`${stage.name} …`);
    const result = await stage.run();
    passed += result.passed;
    failed += result.failed;
    for (const failure of result.failures) console.log(failure);
    if (result.notRun !== undefined) notRun.push(result.notRun);
    // With a filter, all but what it names is not run.
    if (filter === undefined) for (const note of result.notes) console.log(`  ${note}`);
    console.log(`${stage.name}: ${result.passed} passed, ${result.failed} failed (${secondsSince(start)})`);
  };
  // One after the other: some recorded cases time what they find.
  for (const stage of stages) await runStage(stage);
  if (filter !== undefined && passed + failed === 0 && notRun.length === 0) {
    console.error(`nothing matches ${filter}: give a part of a test file's path or name, or a glob of recorded cases`);
    failed = 1;
  }
  for (const line of notRun) console.log(line);
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0;
}
