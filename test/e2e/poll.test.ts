import { cpSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MODES } from '../deployment.mjs';
import { createModelFolder, linesIn, type ModelFolder } from './model-folder.ts';
import { type PolledServer, servePolled } from './polled-cluster.ts';
import { infer, oneInput } from './requests.ts';

const SEEN_LIMIT_MS = 20_000;

/** Answers two numbers: the text is where it notes each start of an instance. */
const answers = (first: number, notes?: string) => `
  import { appendFileSync } from 'node:fs';
  export const initialize = () => ${notes === undefined ? 'undefined' : `appendFileSync(${JSON.stringify(notes)}, 'started\\n')`};
  export const execute = (requests) => requests.map(() => (
    { outputs: { VALUE: { datatype: 'INT32', shape: [2], data: Int32Array.of(${first}, 0) } } }));`;

async function ask(url: string, body?: unknown) {
  const given = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
  const response = await fetch(url, given);
  const text = await response.text();
  return { status: response.status, json: text === '' ? undefined : JSON.parse(text) };
}

describe.each(MODES)('in mode %s', (mode) => {
  let folder: ModelFolder;
  let served: PolledServer;
  const at = (...path: string[]) => join(folder.path, ...path);
  const notes = () => at('.starts');

  /** Written beside the repository's models and then moved there, as one that is copied with care is. */
  const write = (name: string, source: string, extraConfig = '') =>
    folder.addJavaScript(name, source, extraConfig, { dims: 2 });

  const answerOf = async (model: string, outputs?: object[]) => {
    const request = { ...JSON.parse(oneInput('VALUE', 'INT32', [2], [0, 0])), ...(outputs ? { outputs } : {}) };
    const { status, outputs: found, error } = await infer(served.http, model, JSON.stringify(request));
    return status === 200 ? found.get('VALUE')?.data?.[0] : error;
  };
  const becomes = (model: string, answer: unknown, outputs?: object[]) =>
    vi.waitFor(async () => expect(await answerOf(model, outputs)).toEqual(answer), { timeout: SEEN_LIMIT_MS });
  const index = async () => (await ask(`${served.http}/v2/repository/index`, {})).json;
  /** With roles apart gateways hear of it a moment later. */
  const indexHas = (...expected: object[]) =>
    vi.waitFor(async () => expect(await index()).toEqual(expect.arrayContaining(expected)), { timeout: SEEN_LIMIT_MS });

  beforeAll(async () => {
    folder = createModelFolder();
    write('steady', answers(1, notes()));
    write('labelled', answers(5), 'version_policy { latest { num_versions: 1 } }');
    writeFileSync(
      at('labelled', 'config.pbtxt'),
      `backend: "javascript"
       input { name: "VALUE" data_type: TYPE_INT32 dims: [ 2 ] }
       output { name: "VALUE" data_type: TYPE_INT32 dims: [ 2 ] label_filename: "labels.txt" }`,
    );
    writeFileSync(at('labelled', 'labels.txt'), 'plum\npear\n');
    served = await servePolled(mode, [folder.path]);
    await becomes('steady', 1);
  });
  afterAll(async () => {
    const codes = await served.stop();
    folder.remove();
    expect(codes.filter((code) => code !== 0)).toEqual([]);
  });

  test('a model that comes is loaded', async () => {
    write('fresh', answers(10));
    await becomes('fresh', 10);
    await indexHas({ name: 'fresh', version: '1', state: 'READY' });
  });

  test('a config that changes', async () => {
    write('fresh', answers(10), 'parameters { key: "mark" value { string_value: "new" } }');
    const config = () => ask(`${served.http}/v2/models/fresh/config`);
    const expected = { mark: { string_value: 'new' } };
    await vi.waitFor(async () => expect((await config()).json.parameters).toEqual(expected), {
      timeout: SEEN_LIMIT_MS,
    });
    expect(await answerOf('fresh')).toBe(10);
  });

  test('labels that change', async () => {
    const classes = [{ name: 'VALUE', parameters: { classification: 1 } }];
    await becomes('labelled', expect.stringMatching(/^5.*:plum$/), classes);
    writeFileSync(at('labelled', 'labels.txt'), 'apple\npear\n');
    await becomes('labelled', expect.stringMatching(/^5.*:apple$/), classes);
  });

  test('a version that comes, and one that goes', async () => {
    mkdirSync(at('.coming'));
    writeFileSync(at('.coming', 'model.mjs'), answers(12));
    renameSync(at('.coming'), at('fresh', '2'));
    await becomes('fresh', 12);
    await indexHas(
      { name: 'fresh', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
      { name: 'fresh', version: '2', state: 'READY' },
    );
    rmSync(at('fresh', '2'), { recursive: true });
    await becomes('fresh', 10);
  });

  test('BC-088: a broken model, then fixed, does not keep a second good one from loading', async () => {
    write('mended', 'this is no module');
    const reason = expect.stringContaining('Internal: ');
    await indexHas({ name: 'mended', version: '1', state: 'UNAVAILABLE', reason });
    write('mended', answers(20));
    await becomes('mended', 20);
    write('second', answers(21));
    await becomes('second', 21);
  });

  test('a reload that fails leaves the model as it was, and says why', async () => {
    writeFileSync(at('mended', 'config.pbtxt'), 'max_batch_size: many');
    await vi.waitFor(() => expect(served.output()).toMatch(/a change of the repository was not taken.*many/), {
      timeout: SEEN_LIMIT_MS,
    });
    expect(await answerOf('mended')).toBe(20);
    write('mended', answers(22));
    await becomes('mended', 22);
  });

  test('a model that goes is unloaded, and loaded again when it is back', async () => {
    renameSync(at('second'), at('.second'));
    await becomes('second', "Request for unknown model: 'second' has no available versions");
    await vi.waitFor(
      async () => expect(await index()).not.toContainEqual(expect.objectContaining({ name: 'second' })),
      {
        timeout: SEEN_LIMIT_MS,
      },
    );
    cpSync(at('.second'), at('second'), { recursive: true });
    await becomes('second', 21);
  });

  test('loads and unloads are refused, and what editors leave beside files loads nothing', async () => {
    for (const action of ['load', 'unload']) {
      expect(await ask(`${served.http}/v2/repository/models/steady/${action}`, {})).toEqual({
        status: 503,
        json: { error: 'explicit model load / unload is not allowed if polling is enabled' },
      });
    }
    for (const name of ['.config.pbtxt.swp', 'config.pbtxt~', '4913', 'model.swp'])
      writeFileSync(at('steady', name), '');
    mkdirSync(at('steady', '.git'));
    // Two looks later than any change of it that had counted.
    write('later', answers(30));
    await becomes('later', 30);
    expect(linesIn(notes())).toHaveLength(1);
  });
});
