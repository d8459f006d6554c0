/** The client as it is published: packed, in an empty project of Node and TypeScript, and in a page. */
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BROWSERS } from '../../deploy/setup/browser.mjs';
import { ROOT, toolEnvironment } from '../../deploy/setup/checkout.mjs';
import { findProgram, runCommand } from '../../deploy/setup/command.mjs';
import { createModelFolder, type ModelFolder } from '../e2e/model-folder.ts';
import { type Served, serve } from '../e2e/serve.ts';

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-proxy-server',
];

/** Decoupled: counts from 0 to VALUE. */
const COUNTS = `export const execute = (requests) => requests.map(async function* ({ inputs }) {
  for (let n = 0; n < inputs.get('VALUE').data[0]; n++) {
    yield { outputs: { VALUE: { datatype: 'INT32', shape: [1], data: Int32Array.of(n) } } };
  }
});`;

/** Runs in Node and in the page; what it returns is the same. */
const PROGRAM = `
async function program(createClient, url) {
  const client = createClient({ url });
  const inputs = { INPUT0: { datatype: 'INT64', shape: [2], data: [2n ** 63n - 1n, -1] } };
  const { outputs } = await client.infer({ model: 'longs', inputs });
  const streamed = [];
  for await (const { VALUE } of client.stream({ model: 'counts', inputs: { VALUE: 3 } })) streamed.push(VALUE);
  const job = await client.jobs.submit({ model: 'longs', inputs });
  const result = await client.jobs.result(job.id);
  const refused = await client.infer({ model: 'longs', inputs: {} }).catch((error) => error);
  return {
    inferred: Array.from(outputs.OUTPUT0.data, String),
    streamed,
    resulted: Array.from(result.outputs.OUTPUT0.data, String),
    refused: [refused.name, refused.code, refused.status, refused.requestId !== undefined],
  };
}`;
const LONGS = [String(2n ** 63n - 1n), '-1'];
const EXPECTED = {
  inferred: LONGS,
  streamed: [0, 1, 2],
  resulted: LONGS,
  refused: ['NereidError', 'INVALID_ARG', 400, true],
};

/** What a program in TypeScript relies on. */
const TYPES = `
import { createClient, createProducer, type InferResult, NereidError, texts } from '@nereid/client';
const client = createClient({ url: 'http://localhost:8000', retry: { attempts: 2 } });
export async function main(): Promise<number> {
  const result: InferResult = await client.infer({ model: 'm', inputs: { A: { datatype: 'FP32', shape: [1], data: [1] } } });
  const output = result.outputs.B;
  if (output?.datatype !== 'FP32') return texts(output).length;
  const floats: Float32Array = output.data;
  for await (const job of client.jobs.list({ state: 'failed' })) if (job.error?.code === 'POISONED') await client.jobs.retry(job.id);
  // @ts-expect-error: no datatype of the protocol
  await client.infer({ model: 'm', inputs: { A: { datatype: 'FP31', shape: [1], data: [1] } } }).catch((error) => error instanceof NereidError);
  return floats.length + createProducer.length;
}`;

let project: string;
let installed: string;
let folder: ModelFolder;
let served: Served;
let site: Server;
let browser: Browser;

beforeAll(async () => {
  folder = createModelFolder();
  folder.addEcho('longs', 'INT64', [-1]);
  folder.addJavaScript('counts', COUNTS, 'model_transaction_policy { decoupled: true }');
  project = mkdtempSync(join(tmpdir(), 'nereid-client-'));
  installed = join(project, 'node_modules/@nereid/client');
  [served] = await Promise.all([serve([folder.path], ['--http-cors-origin=*']), install()]);
});
afterAll(async () => {
  await browser?.close();
  site?.close();
  const ending = await served?.stop();
  folder?.remove();
  rmSync(project, { recursive: true, force: true });
  expect(ending?.code).toBe(0);
});

/** As a registry has it: what pnpm packs, unpacked. */
async function install(): Promise<void> {
  const packed = await runCommand('pnpm', ['pack', '--pack-destination', project], {
    cwd: join(ROOT, 'packages/client'),
    env: toolEnvironment(),
  });
  const archive = readdirSync(project).find((name) => name.endsWith('.tgz'));
  if (archive === undefined) throw new Error(packed.output);
  await runCommand('tar', ['-xzf', join(project, archive), '-C', project]);
  mkdirSync(join(project, 'node_modules/@nereid'), { recursive: true });
  cpSync(join(project, 'package'), installed, { recursive: true });
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }');
}

test('has types, modules and texts alone, and needs no other package', () => {
  const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
  expect(manifest).toMatchObject({ name: '@nereid/client', license: 'Apache-2.0', type: 'module' });
  expect([manifest.private, manifest.dependencies, manifest.peerDependencies]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(manifest.exports).toEqual({ '.': { types: './dist/index.d.ts', default: './dist/index.js' } });
  const files = readdirSync(installed, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.includes('.') || name === 'LICENSE',
  );
  expect(files).toEqual(
    expect.arrayContaining(['package.json', 'README.md', 'LICENSE', 'dist/index.js', 'dist/index.d.ts']),
  );
  const others = files.filter((name) => !/^dist\/[a-z0-9-]+(\.d\.ts|\.js)$/.test(name));
  expect(others.toSorted()).toEqual(['LICENSE', 'README.md', 'package.json']);
  for (const name of files.filter((file) => file.endsWith('.js'))) {
    expect(readFileSync(join(installed, name), 'utf8'), name).not.toMatch(/from '(?!\.\/)|\brequire\(|process\./);
  }
});

test('in Node', async () => {
  const source = `import { createClient } from '@nereid/client';${PROGRAM}
    console.log(JSON.stringify(await program(createClient, ${JSON.stringify(served.http)})));`;
  writeFileSync(join(project, 'main.js'), source);
  const { output } = await runCommand(process.execPath, ['main.js'], { cwd: project });
  expect(JSON.parse(output)).toEqual(EXPECTED);
});

test.each([
  [
    'a page',
    ['--lib', 'es2023,dom,dom.asynciterable', '--moduleResolution', 'bundler', '--module', 'esnext', '--types', ''],
  ],
  [
    'Node',
    ['--lib', 'es2023', '--module', 'nodenext', '--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')],
  ],
])('its types for %s', async (_for, options) => {
  writeFileSync(join(project, 'main.ts'), TYPES);
  const args = ['--strict', '--noEmit', '--target', 'es2023', ...options, 'main.ts'];
  expect(await runCommand(join(ROOT, 'node_modules/.bin/tsc'), args, { cwd: project })).toEqual({
    code: 0,
    output: '',
  });
});

test('in a page, from another origin', async () => {
  site = createServer(({ url = '' }, response) => {
    const isModule = url.startsWith('/dist/');
    response.setHeader('Content-Type', isModule ? 'text/javascript' : 'text/html');
    response.end(isModule ? readFileSync(join(installed, url)) : '<!doctype html><title>page</title>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const executablePath = BROWSERS.map((name) => findProgram(name)).find((found) => found !== undefined);
  if (executablePath === undefined) throw new Error(`none of ${BROWSERS} is on PATH`);
  browser = await chromium.launch({ executablePath, args: FLAGS });
  const page = await browser.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  const run = `(async () => {
    const { createClient } = await import('/dist/index.js');${PROGRAM}
    return program(createClient, ${JSON.stringify(served.http)});
  })()`;
  expect(await page.evaluate(run)).toEqual(EXPECTED);
  expect(complaints).toEqual([]);
});
