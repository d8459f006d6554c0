import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
    const files = {
      'many/faults/config.pbtxt': `
input [ { name: "IN" dims: [ 4 ] } ] backend: "javascript" max_batch_size: 4
output { name: "OUT" data_type: TYPE_FP32 dims: 4 label_filename: "none.txt" }
dynamic_batching { preferred_batch_size: [ 8 ] }
model_operations { op_library_filename: "x" }
parameters { key: "nereid.bluk" value { string_value: "off" } }
`,
      'many/faults/1/model.mjs': 'export function execute() {}',
      'many/faults/02/model.mjs': '',
      'many/warned/1/model.mjs': 'export function autoComplete() { throw new Error("run"); }',
      'many/warned/config.pbtxt': 'dynamic_batching { }',
      'code/self/1/model.mjs': `export function autoComplete(config) {
        config.input.push({ name: 'TEXT', data_type: 'TYPE_STRING', dims: [1] });
        config.output.push({ name: 'OUT', data_type: 'TYPE_FP32', dims: [4] });
      }`,
      'code/above/config.pbtxt': through('self'),
      'code/above/1/empty': '',
    };
    for (const [file, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, file)), { recursive: true });
      await writeFile(join(root, file), text);
    }
    await mkdir(join(root, 'right', 'good', '1'), { recursive: true });
    await writeFile(join(root, 'right', 'good', 'config.pbtxt'), IDENTITY);
    await writeFile(join(root, 'right', 'good', '1', 'model.mjs'), 'export function execute() {}');
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  async function check(folder: string, json = false, runCode = false) {
    const seen = { out: '', err: '' };
    const exitCode = await checkModels({
      repositories: [join(root, folder)],
      json,
      autoComplete: true,
      modelConfigName: '',
      runCode,
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
      { model: 'good', versions: ['1'], problem: '', findings: [] },
      {
        model: 'python',
        versions: ['1'],
        problem: expect.stringContaining("backend 'python'"),
        findings: [expect.objectContaining({ level: 'error', field: 'backend', line: 2, column: 10 })],
      },
      {
        model: 'typo',
        versions: [],
        problem: expect.stringContaining('backnd'),
        findings: [expect.objectContaining({ file: join(root, 'all/typo/config.pbtxt'), line: 1, column: 1 })],
      },
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
      found('unwritten', "ensemble output 'OUT' for ensemble unwritten' is not used"),
      found('upon', "ensemble 'upon' depends on 'upper' which has no loaded version."),
      found('upper', "ensemble 'upper' depends on 'ours' which has no loaded version."),
      found('within', RIGHT),
    ]);
  });

  it('tells all that is wrong with a model, with its place, and warnings apart', async () => {
    const { exitCode, out } = await check('many');
    expect(exitCode).toBe(4);
    const path = join(root, 'many/faults/config.pbtxt');
    expect(out.split('\n').slice(3)).toEqual([
      '| faults | -        | 4 errors, 2 warnings |',
      '| warned | 1        | OK, 2 warnings       |',
      '+--------+----------+----------------------+',
      `${path}:2:9: error: faults: model input 'IN' must specify 'data_type' for faults [input[0].data_type]`,
      `${path}:3:67: error: faults: failed to open text file for read ${join(root, 'many/faults/none.txt')}: No such file or directory [output[0].label_filename]`,
      `${path}:4:44: error: faults: dynamic batching preferred size must be <= max batch size for faults, got 8 with max_batch_size 4 [dynamic_batching.preferred_batch_size[0]]`,
      `${path}:5:1: warning: faults: 'model_operations' has no effect here [model_operations]`,
      `${path}:6:1: error: faults: unknown parameter 'nereid.bluk' for faults; did you mean 'nereid.bulk'? [parameters["nereid.bluk"]]`,
      "warning: faults: the folder '02' is no version, since it begins with 0",
      `${join(root, 'many/warned/config.pbtxt')}:1:1: warning: warned: 'dynamic_batching' joins no requests, since max_batch_size is 0: the model has no dimension for rows [dynamic_batching]`,
      'warning: warned: not checked: inputs, outputs and what depends on them: its module may complete them, and was not run',
      '',
    ]);
  });

  it('runs code only where it is told to', async () => {
    const open = await check('code', true);
    expect([open.exitCode, JSON.parse(open.out)]).toEqual([
      0,
      [
        expect.objectContaining({ model: 'above', findings: [expect.objectContaining({ level: 'warning' })] }),
        expect.objectContaining({ model: 'self', findings: [expect.objectContaining({ level: 'warning' })] }),
      ],
    ]);
    const run = await check('code', true, true);
    expect([run.exitCode, JSON.parse(run.out)]).toEqual([
      4,
      [
        expect.objectContaining({
          model: 'above',
          problem: expect.stringContaining('mapping to non-existing input IN'),
        }),
        expect.objectContaining({ model: 'self', findings: [] }),
      ],
    ]);
  });

  it('a folder may be one model', async () => {
    const { exitCode, out } = await check('right/good');
    expect([exitCode, out]).toEqual([0, expect.stringContaining('| good  | 1        | OK     |\n')]);
    expect((await check('code/self')).out).toContain('| self  | 1        | OK, 1 warning |\n');
  });

  it('a repository that cannot be read is one line and exits 4', async () => {
    const { exitCode, out, err } = await check('none');
    expect([exitCode, out]).toEqual([4, '']);
    expect(err).toMatch(/^nereid models check: .*none.*\n$/);
  });
});
