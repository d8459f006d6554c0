import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseModelConfig, unsupportedReason } from '@nereid/config';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkModels } from './models-check.ts';

const IDENTITY = `
backend: "javascript"
input { name: "IN" data_type: TYPE_FP32 dims: 4 }
output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
`;

/** Of an ensemble with which nothing is wrong: as of any other config. */
const RIGHT = unsupportedReason(parseModelConfig('platform: "ensemble" ensemble_scheduling { }', 'c')) ?? '';

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
    const through = (...models: string[]) => `
      platform: "ensemble"
      input { name: "IN" data_type: TYPE_FP32 dims: 4 }
      output { name: "OUT" data_type: TYPE_FP32 dims: 4 }
      ensemble_scheduling { ${models
        .map(
          (model, index) => `step { model_name: "${model}" model_version: -1
            input_map { key: "IN" value: "${index === 0 ? 'IN' : index}" }
            output_map { key: "OUT" value: "${index === models.length - 1 ? 'OUT' : index + 1}" } }`,
        )
        .join(' ')} }`;
    const graphs = {
      right: through('good', 'good'),
      within: through('right', 'good'),
      unknown: through('good', 'nope'),
      shape: through('good').replaceAll('dims: 4', 'dims: 5'),
      broken: through('typo'),
      ours: through('python'),
      upon: through('upper'),
      upper: through('ours'),
      later: through('good').replaceAll('-1', '7'),
      round: through('circle'),
      circle: through('good', 'round'),
      unwritten: through('good').replace('value: "OUT"', 'value: "out"'),
    };
    for (const [name, config] of Object.entries({ ...models, ...graphs })) {
      await mkdir(join(root, 'graphs', name, '1'), { recursive: true });
      await writeFile(join(root, 'graphs', name, 'config.pbtxt'), config);
    }
    await writeFile(join(root, 'graphs', 'good', '1', 'model.mjs'), 'export function execute() {}');
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

  it('checks ensembles with the models that they are made of', async () => {
    const { exitCode, out } = await check('graphs', true);
    expect(exitCode).toBe(4);
    const problems: unknown = JSON.parse(out);
    const found = (model: string, problem: unknown) => expect.objectContaining({ model, problem });
    expect(problems).toEqual([
      found('broken', 'ensemble broken contains models that are not available or ambiguous: typo'),
      found('circle', 'circular dependency between ensembles: circle -> ... -> round -> circle'),
      found('good', ''),
      found('later', "ensemble 'later' depends on 'good' whose required version 7 is not loaded."),
      found('ours', "ensemble 'ours' depends on 'python' which has no loaded version."),
      found('python', expect.stringContaining("backend 'python'")),
      found('right', RIGHT),
      found('round', 'circular dependency between ensembles: round -> ... -> circle -> round'),
      found(
        'shape',
        'in ensemble shape, ensemble tensor IN: inconsistent shape: [5] is inferred from model shape while [4] is inferred from model good',
      ),
      found('typo', expect.stringContaining('backnd')),
      found('unknown', 'ensemble unknown contains models that are not available or ambiguous: nope'),
      found(
        'unwritten',
        expect.stringMatching(/^ensemble output 'OUT' for ensemble unwritten' is not used \(.*:4:7\)$/),
      ),
      found('upon', "ensemble 'upon' depends on 'upper' which has no loaded version."),
      found('upper', "ensemble 'upper' depends on 'ours' which has no loaded version."),
      found('within', RIGHT),
    ]);
  });

  it('a repository that cannot be read is one line and exits 4', async () => {
    const { exitCode, out, err } = await check('none');
    expect([exitCode, out]).toEqual([4, '']);
    expect(err).toMatch(/^nereid models check: .*none.*\n$/);
  });
});
