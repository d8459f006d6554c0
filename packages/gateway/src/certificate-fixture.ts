/** Certificates for tests, made anew each time, so that none runs out; only tests import this. */
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto';

export interface Certified {
  readonly cert: string;
  readonly key: string;
  readonly name: string;
  readonly privateKey: KeyObject;
}

const SEQUENCE = 0x30;
const SET = 0x31;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_ID = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const BOOLEAN = 0x01;
const VERSION_TAG = 0xa0;
const EXTENSIONS_TAG = 0xa3;
const DNS_NAME = 0x82;
const IP_ADDRESS = 0x87;

const YEAR_MS = 31_536_000_000;
/** Object identifiers, encoded. */
const ECDSA_WITH_SHA256 = '2a8648ce3d040302';
const COMMON_NAME = '550403';
const BASIC_CONSTRAINTS = '551d13';
const SUBJECT_ALT_NAME = '551d11';

function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Uint8Array.of(tag, ...size), content]);
}

const identifier = (encoded: string) => der(OBJECT_ID, Buffer.from(encoded, 'hex'));
const ALGORITHM = der(SEQUENCE, identifier(ECDSA_WITH_SHA256));

function nameOf(commonName: string): Buffer {
  return der(SEQUENCE, der(SET, der(SEQUENCE, identifier(COMMON_NAME), der(UTF8_STRING, Buffer.from(commonName)))));
}

function timeOf(ms: number): Buffer {
  const text = new Date(ms).toISOString().replaceAll(/[-:T]/g, '').slice(2, 14);
  return der(UTC_TIME, Buffer.from(`${text}Z`));
}

function extensions(isAuthority: boolean): Buffer {
  const constraints = isAuthority ? der(SEQUENCE, der(BOOLEAN, Uint8Array.of(0xff))) : der(SEQUENCE);
  const names = der(SEQUENCE, der(DNS_NAME, Buffer.from('localhost')), der(IP_ADDRESS, Uint8Array.of(127, 0, 0, 1)));
  return der(
    EXTENSIONS_TAG,
    der(
      SEQUENCE,
      der(SEQUENCE, identifier(BASIC_CONSTRAINTS), der(BOOLEAN, Uint8Array.of(0xff)), der(OCTET_STRING, constraints)),
      der(SEQUENCE, identifier(SUBJECT_ALT_NAME), der(OCTET_STRING, names)),
    ),
  );
}

/** A certificate for localhost and 127.0.0.1 with its key; signed by itself, as an authority, without an issuer. */
export function certify(name: string, issuer?: Certified): Certified {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const now = Date.now();
  const content = der(
    SEQUENCE,
    der(VERSION_TAG, der(INTEGER, Uint8Array.of(2))),
    der(INTEGER, Uint8Array.of(1, ...Buffer.from(String(process.hrtime.bigint())))),
    ALGORITHM,
    nameOf(issuer?.name ?? name),
    der(SEQUENCE, timeOf(now - YEAR_MS), timeOf(now + YEAR_MS)),
    nameOf(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions(issuer === undefined),
  );
  const signature = sign('sha256', content, issuer?.privateKey ?? privateKey);
  const certificate = der(SEQUENCE, content, ALGORITHM, der(BIT_STRING, Uint8Array.of(0), signature));
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  const cert = `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
  return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), name, privateKey };
}
