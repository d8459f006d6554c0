import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeJournalFile } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { diffRecordings } from './replay-diff.ts';
import type { FilesHost } from './replay-files.ts';
import { type Answer, callHost, DIFFERENCE, ID, recordingOf, SERVER, SHOWN, stepOf } from './replay-fixture.ts';

describe('nereid replay diff', () => {
  it.each<[Answer, number, string, string]>([
    [[200, { result: 'equal', compared: 9 }], 0, 'equal: 9 steps compared\n', ''],
    [[200, { result: 'differs', compared: 9, first_difference: DIFFERENCE }], 1, `differs at ${SHOWN}\n`, ''],
    [[404, { error: 'not found' }], 2, '', 'nereid replay diff: could not run: not found\n'],
  ])('two recordings: %j', async (answer, exitCode, out, err) => {
    const { host, calls, told } = callHost([answer]);
    expect(await diffRecordings({ url: SERVER, recordings: [ID, 'vad~b'], rtol: 0.5, json: false }, host)).toBe(
      exitCode,
    );
    expect(calls).toEqual([`GET /${ID}/diff?with=vad~b&rtol=0.5`]);
    expect(told()).toEqual({ out, err });
  });
});

describe('nereid replay diff of files', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-diff-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = async (name: string, values: readonly number[], gzip = false) => {
    const path = join(folder, name);
    await writeFile(path, writeJournalFile(recordingOf(values.length), values.map(stepOf), { gzip }));
    return path;
  };
  const diff = (host: FilesHost, one: string, other: string, atol?: number) => {
    const tolerance = atol === undefined ? {} : { atol };
    return diffRecordings({ url: SERVER, recordings: [one, other], json: false, ...tolerance }, host);
  };

  it('compares them here', async () => {
    const { host, calls, told } = callHost([]);
    const one = await write('a.nrj', [0.5, 1]);
    const other = await write('other', [0.5, 1.25], true);
    expect([await diff(host, one, other), await diff(host, one, other, 0.5)]).toEqual([1, 0]);
    expect(calls).toEqual([]);
    expect(told()).toEqual({
      out: 'differs at step 1, output OUT [0]: recorded 1, replayed 1.25\nequal: 2 steps compared\n',
      err: '',
    });
  });

  it('compares one with what a server exports', async () => {
    const one = await write('a.nrj', [1, 2, 3]);
    const { host, calls, told } = callHost([[200, readFileSync(await write('b.nrj', [1, 2]))]]);
    expect(await diff(host, one, ID)).toBe(1);
    expect(calls).toEqual([`GET /${ID}/export`]);
    expect(told().out).toBe('differs at step 2: only the first has it\n');
  });

  it.each([
    ['is not there', undefined, 'none.nrj: ENOENT'],
    ['is cut', (bytes: Buffer) => bytes.subarray(0, -9), 'c.nrj: the journal file is broken: '],
    ['is none', () => Buffer.from('text\n'), 'c.nrj: this is no journal file'],
  ])('a file that %s is 2', async (_what, change, why) => {
    const one = await write('a.nrj', [1]);
    const other = change === undefined ? join(folder, 'none.nrj') : await write('c.nrj', [1]);
    if (change !== undefined) writeFileSync(other, change(readFileSync(other)));
    const { host, told } = callHost([]);
    expect(await diff(host, one, other)).toBe(2);
    expect(told().out).toBe('');
    expect(told().err).toMatch(/^nereid replay diff: could not run: [^\n]*\n$/);
    expect(told().err).toContain(why);
  });
});
