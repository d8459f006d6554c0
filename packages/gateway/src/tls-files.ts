import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { badOption } from '@nereid/config';
import { thrownText } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import type { Result } from './result.ts';

/** Files in PEM. */
export interface TlsFiles {
  /** The server's certificate, and behind it those between it and its root. */
  readonly cert: string;
  readonly key: string;
  /** Those that sign the certificates of clients. With it, clients without one are not served. */
  readonly clientCa?: string | undefined;
}

/** The flags that name them, for errors. */
export type TlsFlags = Readonly<Record<keyof TlsFiles, string>>;

/** What stands in them. */
export interface TlsContents {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca: Buffer | undefined;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs;

/** Reads the files and checks that a server can be made of them; the error names the flag at fault. */
export function readTlsFiles(files: TlsFiles, flags: TlsFlags): Result<TlsContents> {
  let part: keyof TlsFiles = 'cert';
  try {
    const cert = readFileSync(files.cert);
    const [certificate] = certificates(cert);
    part = 'key';
    const key = readFileSync(files.key);
    const fits = certificate.checkPrivateKey(createPrivateKey(key));
    if (!fits) throw new Error(`it is not the key of the certificate of --${flags.cert}`);
    part = 'clientCa';
    const ca = files.clientCa === undefined ? undefined : readFileSync(files.clientCa);
    if (ca !== undefined) certificates(ca);
    return { ok: true, value: { cert, key, ca } };
  } catch (thrown) {
    const wanted = part === 'key' ? 'a private key without a passphrase' : 'certificates';
    const why = `${files[part]} cannot be used: ${thrownText(thrown)}; give a file of ${wanted} in PEM`;
    return { ok: false, error: badOption(flags[part], why) };
  }
}

/** At least one; throws where there is none, or a broken one. */
function certificates(pem: Buffer): [X509Certificate, ...X509Certificate[]] {
  const [first, ...others] = (pem.toString('latin1').match(CERTIFICATES) ?? []).map(
    (text) => new X509Certificate(text),
  );
  if (first === undefined) throw new Error('there is no certificate in it');
  return [first, ...others];
}

/** How often the files are looked at. */
const LOOK_INTERVAL_MS = 10_000;

export interface TlsWatchParts {
  readonly files: TlsFiles;
  readonly flags: TlsFlags;
  /** What the server was made of. */
  readonly contents: TlsContents;
  readonly clock: Clock;
  readonly log: Log;
  /** Takes the new ones for connections from now on. */
  readonly apply: (contents: TlsContents) => void;
}

/**
 * Looks at the files again and again, and has those that changed taken; connections that are open stay.
 * While the files do not fit together, as between two writes, the server goes on with the former ones.
 */
export function watchTlsFiles({ files, flags, contents, clock, log, apply }: TlsWatchParts): Timer {
  let used = contents;
  let complaint = '';
  let timer: Timer;
  const look = () => {
    const read = readTlsFiles(files, flags);
    if (read.ok && !areSame(read.value, used)) {
      used = read.value;
      apply(used);
      log.info({ cert: files.cert }, 'the TLS files have changed and are used from now on');
    }
    const wrong = read.ok ? '' : read.error.message;
    if (wrong !== '' && wrong !== complaint)
      log.error(`the TLS files have changed; the former ones stay in use: ${wrong}`);
    complaint = wrong;
    arm();
  };
  const arm = () => {
    timer = clock.at(clock.nowUs() + LOOK_INTERVAL_MS * 1000, look);
  };
  arm();
  return { cancel: () => timer.cancel() };
}

function areSame(a: TlsContents, b: TlsContents): boolean {
  return (
    a.cert.equals(b.cert) && a.key.equals(b.key) && (a.ca === b.ca || (a.ca?.equals(b.ca ?? Buffer.alloc(0)) ?? false))
  );
}
