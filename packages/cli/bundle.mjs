import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';

// Puts the command and all that it loads into a few files in ./bundle, after `tsc -b`. Node.js spends 0.7 ms on each of
// 1,300 modules, which is most of the time in which a role starts. What is not bundled is in this package's
// dependencies: native code, and packages that read their own files.

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

const EXTERNAL = ['onnxruntime-node', 'msgpackr-extract', /^@bull-board\//, /^@valkey\//, 'supports-color'];

/** Threads and processes are started from the file beside the one that starts them, under these names. */
const STARTED = {
  worker: ['instance-thread', 'instance-process', 'orphan-guard'],
  config: ['auto-complete-thread'],
};

rmSync(here('assets'), { recursive: true, force: true });
rmSync(here('bundle.new'), { recursive: true, force: true });
cpSync(here('../gateway/assets'), here('assets'), { recursive: true });
const bundle = await rolldown({
  input: {
    nereid: here('dist/main.js'),
    ...Object.fromEntries(
      Object.entries(STARTED).flatMap(([folder, names]) =>
        names.map((name) => [name, here(`../${folder}/dist/${name}.js`)]),
      ),
    ),
  },
  platform: 'node',
  external: EXTERNAL,
});
// All in one folder: files beside a module are found from any of them.
const { output } = await bundle.write({ dir: here('bundle.new'), format: 'esm', chunkFileNames: '[name]-[hash].js' });
await bundle.close();

const { dependencies } = JSON.parse(readFileSync(here('package.json'), 'utf8'));
const files = output.map(({ fileName }) => fileName);
const loaded = output.flatMap(({ imports = [], dynamicImports = [] }) => [...imports, ...dynamicImports]);
for (const name of loaded) {
  if (isBuiltin(name) || files.includes(name)) continue;
  const isDeclared = Object.keys(dependencies).some((known) => name === known || name.startsWith(`${known}/`));
  if (!isDeclared) throw new Error(`${name} is not in the bundle: add it to the dependencies in package.json`);
}

/** The folders of the packages of which something is in the bundle. */
const packages = new Set(
  output.flatMap(({ moduleIds = [] }) =>
    moduleIds.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id) ?? []),
  ),
);
writeFileSync(here('bundle.new/LICENSES.txt'), [...packages].sort().map(licenceOf).join('\n'));
// All at once: a command may be started meanwhile.
rmSync(here('bundle'), { recursive: true, force: true });
renameSync(here('bundle.new'), here('bundle'));

/** What goes with the code of a package wherever it goes. */
function licenceOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice)/i.test(file));
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').trim());
  return [`== ${name} ${version} (${license})`, ...texts, ''].join('\n');
}
