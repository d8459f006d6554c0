import { decodeRepositoryList, REPOSITORY_VALUE, type RepositoryFolder } from '@nereid/config';
import { createLog } from '@nereid/runtime';
import { createLocalDirectory } from '@nereid/transport';
import { expect, test } from 'vitest';
import { createRepositoryTell } from './repository-tell.ts';

const folder = (name: string, conflict: string | null = null): RepositoryFolder => ({ name, conflict });

/** Coordinators of one directory, each with folders of its own. */
async function coordinators(...ids: readonly string[]) {
  const directory = createLocalDirectory<unknown>();
  const warnings: unknown[] = [];
  const destination = { write: (line: string) => void warnings.push(JSON.parse(line)) };
  const tells = new Map<string, { tell: () => Promise<void>; folders: RepositoryFolder[] | Error }>();
  for (const id of ids) {
    await directory.register({ id, role: 'coordinator', draining: false });
    const one = { folders: [folder(`of ${id}`)] as RepositoryFolder[] | Error, tell: async () => {} };
    one.tell = createRepositoryTell({
      id,
      directory,
      reader: {
        async folders() {
          if (one.folders instanceof Error) throw one.folders;
          return one.folders;
        },
      },
      log: createLog({ level: 'warn', destination }),
      controlMode: 'explicit',
    });
    tells.set(id, one);
  }
  const of = (id: string) => {
    const one = tells.get(id);
    if (one === undefined) throw new Error(id);
    return one;
  };
  return { directory, of, told: () => decodeRepositoryList(directory.value(REPOSITORY_VALUE)?.text ?? ''), warnings };
}

test('what is there is told, with the control mode, and again when it changed', async () => {
  const { of, told, directory } = await coordinators('co-1');
  await of('co-1').tell();
  expect(told()).toEqual({ controlMode: 'explicit', folders: [folder('of co-1')] });
  await of('co-1').tell();
  expect(directory.value(REPOSITORY_VALUE)?.version).toBe(1);
  of('co-1').folders = [folder('a'), folder('b', 'twice')];
  await of('co-1').tell();
  expect(told()?.folders).toEqual([folder('a'), folder('b', 'twice')]);
});

test('of several coordinators the first by id tells, any other only where nothing is told', async () => {
  const { of, told, directory } = await coordinators('co-1', 'co-2');
  await of('co-2').tell();
  expect(told()?.folders).toEqual([folder('of co-2')]);
  await of('co-1').tell();
  await of('co-2').tell();
  expect(told()?.folders).toEqual([folder('of co-1')]);
  await directory.register({ id: 'co-1', role: 'coordinator', draining: true });
  await of('co-2').tell();
  expect(told()?.folders).toEqual([folder('of co-2')]);
});

test('a repository that cannot be read is warned about once, and told when it can be', async () => {
  const { of, told, warnings } = await coordinators('co-1');
  await of('co-1').tell();
  of('co-1').folders = new Error('gone');
  await of('co-1').tell();
  await of('co-1').tell();
  expect(warnings).toHaveLength(1);
  expect(told()?.folders).toEqual([folder('of co-1')]);
  of('co-1').folders = [folder('back')];
  await of('co-1').tell();
  expect(told()?.folders).toEqual([folder('back')]);
});
