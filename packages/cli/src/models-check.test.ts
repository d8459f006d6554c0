import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkModels } from './models-check.ts';

const IDENTITY = `
backend: "javascript"
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
`;

describe('models check', () => {
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'nereid-models-'));
    const models = { good: IDENTITY, typo: 'backnd: "javascript"', python: IDENTITY.replace('javascript', 'python') };
    for (const [name, config] of Object.entries(models)) {
      await mkdir(join(root, 'all', name, '1'), { recursive: true });
      await writeFile(join(root, 'all', name, 'config.pbtxt'), config);
      await writeFile(join(root, 'all', name, '1', 'model.mjs'), 'export function execute() {}');
    }
    await mkdir(join(root, 'right', 'good', '1'), { recursive: true });
    await writeFile(join(root, 'right', 'good', 'config.pbtxt'), IDENTITY);
    await writeFile(join(root, 'right', 'good', '1', 'model.mjs'), 'export function execute() {}');
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  async function check(folder: string, json = false) {
    const seen = { out: '', err: '' };
    const exitCode = await checkModels({
      repositories: [join(root, folder)],
      json,
      autoComplete: true,
      modelConfigName: '',
      stdout: (text) => {
        seen.out += text;
      },
      stderr: (text) => {
        seen.err += text;
      },
    });
    return { exitCode, ...seen };
  }

  it('shows a table and exits 0 where all are right', async () => {
    const { exitCode, out } = await check('right');
    expect(exitCode).toBe(0);
    expect(out).toContain('| good  | 1        | OK     |\n');
  });

  it('names each problem and exits 4', async () => {
    const { exitCode, out } = await check('all', true);
    expect(exitCode).toBe(4);
    expect(JSON.parse(out)).toEqual([
      { model: 'good', versions: ['1'], problem: '' },
      { model: 'python', versions: ['1'], problem: expect.stringContaining("backend 'python'") },
      { model: 'typo', versions: [], problem: expect.stringContaining('backnd') },
    ]);
  });

  it('a repository that cannot be read is one line and exits 4', async () => {
    const { exitCode, out, err } = await check('none');
    expect([exitCode, out]).toEqual([4, '']);
    expect(err).toMatch(/^nereid models check: .*none.*\n$/);
  });
});
