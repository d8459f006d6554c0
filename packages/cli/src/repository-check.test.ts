import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkRepository, whyUnreadable } from './repository-check.ts';

describe('a model repository', () => {
  let root: string;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'nereid-check-'));
    await mkdir(join(root, 'good', 'model', '1'), { recursive: true });
    await mkdir(join(root, 'empty', '.hidden'), { recursive: true });
    await writeFile(join(root, 'empty', 'README.md'), '');
    await writeFile(join(root, 'file'), '');
  });
  afterAll(() => rm(root, { recursive: true, force: true }));

  const check = (name: string) => checkRepository(join(root, name));

  it('with a folder in it is fine', async () => {
    expect(await check('good')).toEqual({ kind: 'ok' });
  });

  it('without one is empty, which is no error', async () => {
    const text = `model repository ${join(root, 'empty')} holds no models: each model is a folder <model>/<version>/<file>`;
    expect(await check('empty')).toEqual({ kind: 'empty', text });
  });

  it.each([
    ['missing', 'does not exist: create it or correct --model-repository'],
    ['file', 'is not a folder: name the folder that holds the models'],
  ])('%s: %s', async (name, why) => {
    expect(await check(name)).toEqual({ kind: 'unusable', text: `model repository ${join(root, name)} ${why}` });
  });

  // Made and not met: the superuser may read everything.
  it.each(['EACCES', 'EPERM'])('that may not be read (%s) says whose permission is missing', (code) => {
    const failure = Object.assign(new Error(`${code}: not you`), { code });
    expect(whyUnreadable(failure)).toBe('cannot be read: give this user permission to read and enter it');
  });

  it.each(['s3://bucket/models', 'gs://bucket', 'as://account/container'])(
    '%s is for the server to open',
    async (url) => {
      expect(await checkRepository(url)).toEqual({ kind: 'ok' });
    },
  );
});
