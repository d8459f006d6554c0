import {
  type ControlMode,
  encodeRepositoryList,
  type ModelRecord,
  REPOSITORY_VALUE,
  type RepositoryFolder,
} from '@nereid/config';
import { createLocalDirectory } from '@nereid/transport';
import { describe, expect, it } from 'vitest';
import { modelRecord, SIMPLE } from './gateway-fixture.ts';
import { createRepository, type LoadParameter } from './repository.ts';

const folder = (name: string, conflict: string | null = null): RepositoryFolder => ({ name, conflict });
const record = (name: string, versions: ModelRecord['versions']): ModelRecord => ({
  ...modelRecord(SIMPLE, versions),
  name,
});

async function told(controlMode: ControlMode, folders: readonly RepositoryFolder[] = []) {
  const directory = createLocalDirectory<ModelRecord>();
  const tell = (now: readonly RepositoryFolder[]) =>
    directory.setValue(REPOSITORY_VALUE, encodeRepositoryList({ controlMode, folders: now }));
  await tell(folders);
  const publish = (name: string, versions: ModelRecord['versions']) => directory.publish(name, record(name, versions));
  return { directory, tell, publish, repository: createRepository({ directory }) };
}

describe('the index', () => {
  it('lists folders by name, with what is known of their versions', async () => {
    const folders = [folder('a'), folder('b'), folder('c', 'twice'), folder('d'), folder('e')];
    const { repository, publish } = await told('none', folders);
    await publish('b', [
      { version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
      { version: '3', state: 'READY', reason: '' },
    ]);
    await publish('d', [{ version: '1', state: 'UNAVAILABLE', reason: 'Internal: no' }]);
    await publish('e', []);
    await publish('gone', [{ version: '1', state: 'READY', reason: '' }]);
    expect(await repository.index(false)).toEqual({
      ok: true,
      value: [
        { name: 'a' },
        { name: 'b', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' },
        { name: 'b', version: '3', state: 'READY' },
        { name: 'c', state: 'UNAVAILABLE', reason: 'twice' },
        { name: 'd', version: '1', state: 'UNAVAILABLE', reason: 'Internal: no' },
        { name: 'e' },
      ],
    });
    expect(await repository.index(true)).toEqual({
      ok: true,
      value: [
        { name: 'b', version: '3', state: 'READY' },
        // Triton lists it all the same.
        { name: 'c', state: 'UNAVAILABLE', reason: 'twice' },
      ],
    });
  });

  it('follows what is told', async () => {
    const { repository, tell } = await told('none', [folder('a')]);
    await repository.index(false);
    await tell([folder('a'), folder('new')]);
    expect(await repository.index(false)).toEqual({ ok: true, value: [{ name: 'a' }, { name: 'new' }] });
  });

  it('has the repositories looked at first, where their reader is in this process', async () => {
    const { directory, tell } = await told('none');
    const repository = createRepository({ directory, refresh: async () => void (await tell([folder('fresh')])) });
    expect(await repository.index(false)).toEqual({ ok: true, value: [{ name: 'fresh' }] });
  });

  it.each([undefined, 'of another build'])('is unavailable while it is not told: %s', async (text) => {
    const directory = createLocalDirectory<ModelRecord>();
    if (text !== undefined) await directory.setValue(REPOSITORY_VALUE, text);
    const repository = createRepository({ directory });
    expect(await repository.index(false)).toMatchObject({ ok: false, error: { code: 'UNAVAILABLE' } });
    expect(repository.load('m', [])).toMatchObject({ code: 'UNAVAILABLE' });
  });
});

describe('load and unload', () => {
  const NOT_ALLOWED = {
    code: 'UNAVAILABLE',
    message: 'explicit model load / unload is not allowed if polling is enabled',
  };
  const WRONG: LoadParameter = { name: 'zz', value: '' };

  it.each(['none', 'poll'] as const)('are not allowed in mode %s', async (mode) => {
    const { repository } = await told(mode);
    expect([repository.load('m', []), repository.unload('m')]).toEqual([NOT_ALLOWED, NOT_ALLOWED]);
  });

  it('are told not to be there yet in mode explicit', async () => {
    const { repository } = await told('explicit');
    const parameters = [
      { name: 'config', value: '{}' },
      { name: 'file:1/model.onnx', value: new Uint8Array(1) },
    ];
    for (const error of [repository.load('m', parameters), repository.unload('m')]) {
      expect(error).toMatchObject({ code: 'UNSUPPORTED', message: expect.stringContaining("'m'") });
    }
  });

  it.each(['none', 'explicit'] as const)('an unknown parameter comes first in mode %s', async (mode) => {
    const { repository } = await told(mode);
    expect(repository.load('m', [WRONG])).toEqual({
      code: 'INVALID_ARG',
      message: "unrecognized load parameter 'zz'.",
      field: 'parameters.zz',
    });
  });
});
