import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readModel } from './read-model.ts';

const MODULE = 'export const execute = (requests) => requests.map(() => ({ outputs: {} }));';
const MD5 = createHash('md5').update(MODULE).digest('hex');
const OTHER = MD5.replace(/./g, '0');
const FIELD = 'model_repository_agents.agents[0]';

let root = '';
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'nereid-agents-'));
  mkdirSync(join(root, 'm', '1'), { recursive: true });
  writeFileSync(join(root, 'm', '1', 'model.mjs'), MODULE);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

function read(agents: string) {
  const directory = join(root, 'm');
  const tensor = (kind: string) => `${kind} { name: "${kind}" data_type: TYPE_INT32 dims: [ 1 ] }`;
  const config = `backend: "javascript" ${tensor('input')} ${tensor('output')} model_repository_agents { ${agents} }`;
  writeFileSync(join(directory, 'config.pbtxt'), config);
  return readModel({ name: 'm', directory }, { autoComplete: true, gpus: 0 });
}

const checksum = (key: string, value: string) =>
  `agents { name: "checksum" parameters { key: "${key}" value: "${value}" } }`;

describe('M17: the checksum agent', () => {
  test.each([
    ['of a file that is as it says', checksum('MD5:1/model.mjs', MD5)],
    ['in any letters', checksum('md5:1/model.mjs', MD5)],
    ['without parameters', 'agents { name: "checksum" }'],
  ])('%s', async (_name, agents) => {
    expect(await read(agents)).toMatchObject({ versions: ['1'] });
  });

  test.each([
    [
      'of a file that differs',
      checksum('MD5:1/model.mjs', OTHER),
      { code: 'INVALID_ARG', text: `Mismatched MD5 hash for file 1/model.mjs, expect: ${OTHER}, got: ${MD5}` },
    ],
    [
      'of a file that is not there',
      checksum('MD5:1/none', OTHER),
      { code: 'INVALID_ARG', text: 'failed to open text file for read 1/none: No such file or directory' },
    ],
    [
      'of a file elsewhere',
      checksum('MD5:../x', OTHER),
      { code: 'INVALID_ARG', text: "'../x' must name a file inside" },
    ],
    ['of a folder', checksum('MD5:1', OTHER), { code: 'INVALID_ARG', text: 'it is not a regular file' }],
    [
      'without an algorithm',
      checksum('1/model.mjs', MD5),
      { code: 'INVALID_ARG', text: 'failed to parse key: 1/model.mjs' },
    ],
    [
      'by another algorithm',
      checksum('SHA256:x', ''),
      { code: 'UNSUPPORTED', text: 'Unsupported checksum algorithm: SHA256' },
    ],
  ])('%s fails the load', async (_name, agents, { code, text }) => {
    await expect(read(agents)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(text),
      field: `${FIELD}.parameters`,
    });
  });

  test('two agents run in their order', async () => {
    const both = `${checksum('MD5:1/model.mjs', MD5)} ${checksum('MD5:1/none', MD5)}`;
    await expect(read(both)).rejects.toMatchObject({ field: 'model_repository_agents.agents[1].parameters' });
  });
});

test('an agent that there is not is refused by name, before anything is read', async () => {
  const agents = `${checksum('MD5:1/none', MD5)} agents { name: "encrypted" }`;
  await expect(read(agents)).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringMatching(
      /^.*unable to find 'libtritonrepoagent_encrypted.so' for repo agent 'encrypted': .*the one that is built in is 'checksum'/,
    ),
    field: 'model_repository_agents.agents[1].name',
  });
});
