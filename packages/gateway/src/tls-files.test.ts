import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLog, virtualClock } from '@nereid/runtime';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { certify } from './certificate-fixture.ts';
import { readTlsFiles, type TlsContents, watchTlsFiles } from './tls-files.ts';

const FLAGS = { cert: 'the-cert', key: 'the-key', clientCa: 'the-ca' };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'nereid-tls-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

function file(name: string, content: string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const one = certify('one');
const two = certify('two');

function locked(): string {
  const { privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' },
  });
  return privateKey;
}

describe('files', () => {
  it('that fit together are read, others behind the certificate too', () => {
    const files = {
      cert: file('c', one.cert + two.cert),
      key: file('k', one.key),
      clientCa: file('a', two.cert + one.cert),
    };
    const read = readTlsFiles(files, FLAGS);
    expect(read.ok && [read.value.cert, read.value.key, read.value.ca].map(String)).toEqual([
      one.cert + two.cert,
      one.key,
      two.cert + one.cert,
    ]);
    expect(readTlsFiles({ cert: files.cert, key: files.key }, FLAGS)).toMatchObject({
      ok: true,
      value: { ca: undefined },
    });
  });

  it.each<readonly [string, Partial<Record<'cert' | 'key' | 'clientCa', string>>, RegExp]>([
    [
      'a certificate that is not there',
      { cert: '/none' },
      /^--the-cert: \/none cannot be used: ENOENT.*; give a file of certificates in PEM$/,
    ],
    ['a certificate file without one', { cert: 'hello' }, /^--the-cert: .*there is no certificate in it/],
    ['a broken certificate', { cert: one.cert.replace('MII', 'AAA').replace('MIIB', 'AAAA') }, /^--the-cert: /],
    [
      'a broken one behind it',
      { cert: `${one.cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----` },
      /^--the-cert: /,
    ],
    [
      'a key that is not there',
      { key: '/none' },
      /^--the-key: \/none cannot be used: ENOENT.*; give a file of a private key/,
    ],
    ['no key', { key: 'hello' }, /^--the-key: /],
    [
      'the key of another certificate',
      { key: two.key },
      /^--the-key: .*it is not the key of the certificate of --the-cert/,
    ],
    ['a key with a passphrase', { key: locked() }, /^--the-key: .*without a passphrase/],
    ['a CA file without a certificate', { clientCa: one.key }, /^--the-ca: .*there is no certificate in it/],
    ['a CA file that is not there', { clientCa: '/none' }, /^--the-ca: \/none cannot be used: ENOENT/],
  ])('%s: the error names flag and fix', (_what, contents, message) => {
    const path = (name: 'cert' | 'key', good: string) => {
      const content = contents[name] ?? good;
      return content === '/none' ? content : file(name, content);
    };
    const { clientCa } = contents;
    const files = {
      cert: path('cert', one.cert),
      key: path('key', one.key),
      clientCa: clientCa === undefined || clientCa === '/none' ? clientCa : file('ca', clientCa),
    };
    expect(readTlsFiles(files, FLAGS)).toMatchObject({
      ok: false,
      error: { code: 'INVALID_ARG', reason: 'bad_option', message: expect.stringMatching(message) },
    });
  });
});

it('what changes is taken once it fits together, and not before', () => {
  const files = { cert: file('c', one.cert), key: file('k', one.key) };
  const read = readTlsFiles(files, FLAGS);
  if (!read.ok) throw new Error(read.error.message);
  const clock = virtualClock();
  const applied: string[] = [];
  const apply = ({ cert }: TlsContents) => applied.push(String(cert));
  const watch = watchTlsFiles({
    files,
    flags: FLAGS,
    contents: read.value,
    clock,
    log: createLog({ level: 'silent' }),
    apply,
  });
  const look = () => clock.advanceUs(10_000_000);
  look();
  file('c', two.cert);
  look();
  look();
  expect(applied).toEqual([]);
  file('k', two.key);
  look();
  look();
  expect(applied).toEqual([two.cert]);
  watch.cancel();
  expect(clock.liveTimers).toBe(0);
});
