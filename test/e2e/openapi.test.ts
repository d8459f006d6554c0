import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../../deploy/setup/checkout.mjs';
import { type Deployment, deploy, MODES } from '../deployment.mjs';

const MODELS = join(ROOT, 'test', 'conformance', 'repo', 'onnx');
const NAMES = [
  'simple',
  'add_sub',
  'classifier',
  'optional_inputs',
  'text',
  'identity_bytes',
  'identity_fp16',
  'identity_int64',
  'identity_bool',
  'identity_2d',
  'reshaped',
];

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly example?: unknown }>> };
  readonly responses: Readonly<Record<string, unknown>>;
}
interface Document {
  readonly paths: Readonly<Record<string, { readonly get?: Operation; readonly post?: Operation }>>;
}

describe.each(MODES)('in mode %s', (mode) => {
  let folder: string;
  let served: Deployment;
  let document: Document;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-openapi-'));
    for (const name of NAMES) cpSync(join(MODELS, name), join(folder, name), { recursive: true });
    cpSync(join(ROOT, 'model_repository', 'redact'), join(folder, 'redact'), { recursive: true });
    served = await deploy(mode, [folder]);
    document = (await (await fetch(`${served.http}/openapi.json`)).json()) as Document;
  });
  afterAll(async () => {
    for (const { code, output } of await served.stop()) expect(code, output).toBe(0);
    rmSync(folder, { recursive: true, force: true });
  });

  test('every example of a request is answered as the document says', async () => {
    const wrong: string[] = [];
    let sent = 0;
    for (const [path, { post }] of Object.entries(document.paths)) {
      const example = post?.requestBody?.content['application/json']?.example;
      // What is named in a path would have to be there.
      if (post === undefined || example === undefined || path.includes('{')) continue;
      const response = await fetch(served.http + path, { method: 'POST', body: JSON.stringify(example) });
      const text = await response.text();
      if (post.responses[response.status] === undefined) wrong.push(`${path}: ${response.status} ${text}`);
      sent++;
    }
    expect(wrong).toEqual([]);
    // All models but the one of halves, each in its plain path and that of its version.
    expect(sent).toBeGreaterThanOrEqual(NAMES.length * 4);
  });

  test('every path without a body is served', async () => {
    const wrong: string[] = [];
    let sent = 0;
    for (const [path, { get }] of Object.entries(document.paths)) {
      if (get === undefined || path.includes('{')) continue;
      const response = await fetch(served.http + path);
      await response.arrayBuffer();
      if (get.responses[response.status] === undefined) wrong.push(`${path}: ${response.status}`);
      sent++;
    }
    expect(wrong).toEqual([]);
    // What each model has, at least.
    expect(sent).toBeGreaterThan(NAMES.length);
  });
});
