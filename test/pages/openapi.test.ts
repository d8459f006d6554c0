import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { BROWSERS } from '../../deploy/setup/browser.mjs';
import { MODEL_REPOSITORY } from '../../deploy/setup/checkout.mjs';
import { findProgram } from '../../deploy/setup/command.mjs';
import { createModelFolder, type ModelFolder } from '../e2e/model-folder.ts';
import { SIMPLE_SUM } from '../e2e/requests.ts';
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
/** Runs where a page takes text for markup. */
const MARKUP = '<img src=x onerror=document.title=1>';
const ODD = "a&b'c";

let folder: ModelFolder;
let served: Served;
let browser: Browser;
let page: Page;
let complaints: string[];
let addresses: string[];

beforeAll(async () => {
  folder = createModelFolder();
  cpSync(join(MODEL_REPOSITORY, 'simple'), join(folder.path, 'simple'), { recursive: true });
  mkdirSync(join(folder.path, ODD, '1'), { recursive: true });
  writeFileSync(
    join(folder.path, ODD, '1', 'model.mjs'),
    `export const execute = (all) => all.map(() => new Error('${MARKUP}'));`,
  );
  writeFileSync(
    join(folder.path, ODD, 'config.pbtxt'),
    `name: "${ODD}" backend: "javascript"
input [ { name: "${MARKUP}", data_type: TYPE_STRING, dims: [ 1 ] } ]
output [ { name: "OUT", data_type: TYPE_STRING, dims: [ 1 ] } ]
instance_group [ { count: 1, kind: KIND_CPU } ]`,
  );
  served = await serve([folder.path]);
  const executablePath = BROWSERS.map((name) => findProgram(name)).find((found) => found !== undefined);
  if (executablePath === undefined) throw new Error(`none of ${BROWSERS} is on PATH`);
  browser = await chromium.launch({ executablePath, args: FLAGS });
});
afterAll(async () => {
  await browser?.close();
  const ending = await served?.stop();
  folder?.remove();
  expect(ending?.code).toBe(0);
});

beforeEach(async () => {
  complaints = [];
  addresses = [];
  page = await browser.newPage();
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('request', (request) => addresses.push(request.url()));
  await page.goto(`${served.http}/openapi`);
  await page.getByRole('button', { name: 'simple' }).waitFor();
  return () => page.close();
});

const answer = () => page.locator('#answer').textContent();

test('from the keyboard alone: a model is found, its example sent, and the answer read', async () => {
  await page.keyboard.press('Tab'); // the link to the document
  await page.keyboard.press('Tab'); // the filter
  await page.keyboard.type('SIMP');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'simple' }).waitFor();
  expect(await page.evaluate('document.activeElement?.id')).toBe('model');
  await page.keyboard.press('Tab'); // the choice of paths
  await page.keyboard.press('Tab'); // the body
  await page.keyboard.press('Control+Enter');
  await page
    .getByRole('status')
    .filter({ hasText: /^200 OK, \d+ bytes in [\d.]+ ms$/ })
    .waitFor();
  const outputs = JSON.parse((await answer()) ?? '').outputs as { name: string; data: number[] }[];
  const given = Array.from({ length: SIMPLE_SUM.length }, (_, index) => 2 * (index % 8));
  expect(outputs.find(({ name }) => name === 'OUTPUT0')?.data).toEqual(given);
  expect(complaints).toEqual([]);
});

test('what is wrong with a request is shown', async () => {
  await page.getByRole('button', { name: 'simple' }).click();
  await page.getByLabel('Body, in JSON').fill('{');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('status').filter({ hasText: '400' }).waitFor();
  expect(await answer()).toContain('failed to parse the request JSON buffer');
});

test('names and answers of models are text, whatever stands in them', async () => {
  const title = await page.title();
  await page.getByRole('button', { name: ODD }).click();
  await page.getByRole('cell', { name: MARKUP }).waitFor();
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('status').filter({ hasText: '500' }).waitFor();
  expect(await answer()).toContain(MARKUP);
  expect(await page.title()).toBe(title);
  expect(await page.locator('img').count()).toBe(0);
});

test('nothing comes from elsewhere, and what is put in does not run', async () => {
  await page.getByRole('button', { name: 'simple' }).click();
  expect(new Set(addresses.filter((url) => !url.startsWith('data:')).map((url) => new URL(url).origin))).toEqual(
    new Set([served.http]),
  );
  expect(complaints).toEqual([]);
  const ran = await page.evaluate(`{
    const script = document.createElement('script');
    script.textContent = 'document.title = "ran"';
    document.body.append(script);
    document.title === 'ran';
  }`);
  expect(ran).toBe(false);
});

test('it follows the colours that the user has', async () => {
  const colours = [];
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    colours.push(await page.evaluate('getComputedStyle(document.body).backgroundColor'));
  }
  expect(colours).toEqual(['rgb(255, 255, 255)', 'rgb(20, 23, 26)']);
});
