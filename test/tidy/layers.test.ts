import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** ARCHITECTURE.md's table: what a package may import. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  runtime: [],
  protocol: [],
  config: ['protocol'],
  repository: ['runtime', 'protocol', 'config'],
  scheduler: ['protocol', 'config'],
  transport: ['runtime', 'protocol'],
  backends: ['runtime', 'protocol', 'config'],
  caller: ['runtime', 'protocol', 'config', 'transport'],
  gateway: ['runtime', 'protocol', 'config', 'scheduler', 'transport', 'caller'],
  coordinator: ['runtime', 'protocol', 'config', 'repository', 'scheduler', 'transport', 'caller'],
  worker: ['runtime', 'protocol', 'config', 'scheduler', 'transport', 'caller', 'backends'],
  client: [],
};
const EVERYTHING = ['server', 'cli'];
const LINES_MAX = 400;

const packages = readdirSync(join(root, 'packages'));

function* sources(folder: string): Generator<string> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (name === 'gen' || name === 'dist' || name === 'node_modules') continue;
    if (statSync(path).isDirectory()) yield* sources(path);
    else if (path.endsWith('.ts')) yield path;
  }
}

const imports = (path: string) =>
  [...readFileSync(path, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1] ?? '');

describe('layers', () => {
  test('every package has its row', () => {
    expect(packages.toSorted()).toEqual([...Object.keys(MAY_IMPORT), ...EVERYTHING].toSorted());
  });

  test.each(packages)('%s imports only what its row allows, and declares it', (name) => {
    const manifest = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'));
    // What is bundled is needed at the build alone.
    const declared = Object.keys({ ...manifest.dependencies, ...(name === 'cli' && manifest.devDependencies) });
    const allowed = MAY_IMPORT[name];
    for (const path of sources(join(root, 'packages', name, 'src'))) {
      for (const imported of imports(path)) {
        const sibling = /^@nereid\/([^/]+)/.exec(imported)?.[1];
        const where = `${relative(root, path)} imports ${imported}`;
        if (sibling !== undefined) {
          expect(declared, where).toContain(`@nereid/${sibling}`);
          if (allowed !== undefined) expect(allowed, where).toContain(sibling);
        } else if (imported.startsWith('.')) {
          const target = relative(join(root, 'packages', name), join(dirname(path), imported));
          expect(target.startsWith('..'), where).toBe(false);
        }
      }
    }
  });

  test('only cli reads the environment', () => {
    for (const name of packages.filter((name) => name !== 'cli')) {
      for (const path of sources(join(root, 'packages', name, 'src'))) {
        if (/(\.test|-fixture)\.ts$/.test(path)) continue;
        expect(/\bprocess\.env\b/.test(readFileSync(path, 'utf8')), relative(root, path)).toBe(false);
      }
    }
  });

  test(`no source file is longer than ${LINES_MAX} lines`, () => {
    for (const name of packages) {
      for (const path of sources(join(root, 'packages', name, 'src'))) {
        if (path.endsWith('.test.ts')) continue;
        const lines = readFileSync(path, 'utf8').split('\n').length;
        expect(lines, relative(root, path)).toBeLessThanOrEqual(LINES_MAX);
      }
    }
  });
});

/** What an instance's thread or process loads of @nereid/config: each would hold all of it, and start later. */
test('backends load only what is small of the package of configurations', () => {
  const isLoaded = (path: string) => !/(\.test|fixture-[a-z]+)\.ts$/.test(path);
  const lines = [...sources(join(root, 'packages/backends/src'))]
    .filter(isLoaded)
    .flatMap((path) => [...readFileSync(path, 'utf8').matchAll(/^import (?!type )[^;]*'(@nereid\/config[^']*)';/gm)]);
  expect(new Set(lines.map(([, name]) => name))).toEqual(new Set(['@nereid/config/reshape.js']));
});

/** Each package with .proto files, and the folder of what is generated from them. */
const GENERATED = { config: 'src/gen', gateway: 'src/grpc/gen' };

test.each(Object.entries(GENERATED))('the generated protobuf code of %s is as buf generates it', async (name, gen) => {
  const folder = await mkdtemp(join(tmpdir(), 'nereid-gen-'));
  try {
    const bin = join(root, 'node_modules/.bin');
    await promisify(execFile)(join(bin, 'buf'), ['generate', '--output', folder], {
      cwd: join(root, 'packages', name),
      env: { ...process.env, PATH: `${bin}:${process.env.PATH}` },
    });
    const files = (path: string) =>
      Object.fromEntries(readdirSync(path).map((file) => [file, readFileSync(join(path, file), 'utf8')]));
    expect(files(join(folder, gen))).toEqual(files(join(root, 'packages', name, gen)));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
