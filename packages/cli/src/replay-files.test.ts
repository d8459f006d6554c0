import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeJournalFile } from '@nereid/protocol';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exportRecording, importRecording } from './replay-files.ts';
import { callHost, ID, RECORDING, recordingOf, SERVER, stepOf } from './replay-fixture.ts';

const one = { url: SERVER, id: ID };

describe('nereid replay export and import', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'nereid-replay-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('export writes a file, whole or not at all', async () => {
    const out = join(folder, 'a.nrj');
    const { host, calls, told } = callHost([[200, 'whole'], { broken: ['half'] }]);
    const options = { ...one, out, gzip: true, asTest: false };
    expect(await exportRecording(options, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}/export?gzip=true`]);
    expect(told()).toEqual({ out: `wrote ${ID} to ${out}, 5 bytes\n`, err: '' });
    expect(await exportRecording(options, host)).toBe(1);
    expect(told().err).toBe(`nereid replay export: ${out}: reset\n`);
    expect([readdirSync(folder), readFileSync(out, 'utf8')]).toEqual([['a.nrj'], 'whole']);
  });

  it.skipIf(process.platform === 'win32')('export to a device, or a pipe, leaves it what it is', async () => {
    const out = join(folder, 'pipe');
    execFileSync('mkfifo', [out]);
    const read = readFile(out, 'utf8');
    const { host } = callHost([[200, 'whole']]);
    expect(await exportRecording({ ...one, out, gzip: false, asTest: false }, host)).toBe(0);
    expect([await read, readdirSync(folder), statSync(out).isFIFO()]).toEqual(['whole', ['pipe'], true]);
  });

  it('a folder is no file', async () => {
    const { host, calls, told } = callHost([[200, 'whole']]);
    expect(await exportRecording({ ...one, out: folder, gzip: false, asTest: false }, host)).toBe(1);
    expect(await importRecording({ url: SERVER, file: folder }, host)).toBe(2);
    expect(calls).toEqual([`GET /${ID}/export`]);
    expect(told().err).toBe(
      `nereid replay export: ${folder}: it is a folder: give the name of a file\nnereid replay import: cannot read ${folder}: it is a folder\n`,
    );
  });

  it('export writes to standard output and nothing beside', async () => {
    const { host, calls, told } = callHost([[200, 'whole']]);
    expect(await exportRecording({ ...one, out: '-', gzip: false, asTest: false }, host)).toBe(0);
    expect(calls).toEqual([`GET /${ID}/export`]);
    expect(told()).toEqual({ out: 'whole', err: '' });
  });

  it('export writes a test', async () => {
    const file = join(folder, 'a.nrj');
    await writeFile(file, writeJournalFile(recordingOf(1), [stepOf(1.5, 0)], { gzip: false }));
    const { host, calls, told } = callHost([[200, readFileSync(file)]]);
    const options = { ...one, out: join(folder, 'a.test.mjs'), asTest: true };
    expect(await exportRecording({ ...options, gzip: false }, host)).toBe(0);
    expect(readFileSync(options.out, 'utf8')).toContain("from 'node:test'");
    expect(await exportRecording({ ...options, gzip: true }, host)).toBe(2);
    expect(calls).toEqual([`GET /${ID}/export`]);
    expect(told().err).toContain('leave --gzip out');
  });

  it.each([
    ['a file', (path: string) => path, 'from file'],
    ['standard input', () => '-', 'from stdin'],
  ])('import sends %s and tells the new id', async (_what, name, sent) => {
    const path = join(folder, 'b.nrj');
    writeFileSync(path, 'from file');
    const { host, calls, told } = callHost([[201, { ...RECORDING, id: 'vad~import-x' }]]);
    expect(await importRecording({ url: SERVER, file: name(path) }, host)).toBe(0);
    expect(calls).toEqual([`POST  ${sent}`]);
    expect(told()).toEqual({ out: 'imported as vad~import-x: 2 steps of model vad\n', err: '' });
  });

  it('import of a file that is not there asks nobody, and a refusal is told', async () => {
    const { host, calls, told } = callHost([[400, { error: 'broken frame of a journal' }]]);
    expect(await importRecording({ url: SERVER, file: join(folder, 'none') }, host)).toBe(2);
    expect(calls).toEqual([]);
    expect(told().err).toMatch(/^nereid replay import: cannot read .*ENOENT[^\n]*\n$/);
    expect(await importRecording({ url: SERVER, file: '-' }, host)).toBe(1);
    expect(told().err).toContain('nereid replay import: broken frame of a journal\n');
  });
});
