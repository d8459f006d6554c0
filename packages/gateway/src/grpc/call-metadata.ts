import type { IncomingHttpHeaders } from 'node:http2';
import type { CallMetadata } from './transport.ts';

/** HTTP/2's and gRPC's own, which clients of a call do not set. */
const OWN = /^(?::|grpc-|te$|content-type$|content-length$|.*-bin$)/;

/** The metadata of a call by its header. */
export function callMetadata(header: IncomingHttpHeaders): CallMetadata {
  const text = (value: string | readonly string[]) => (typeof value === 'string' ? value : value.join(', '));
  return {
    get(name) {
      const value = header[name];
      return value === undefined ? undefined : text(value);
    },
    headers: () =>
      Object.entries(header).flatMap(([name, value]) =>
        value === undefined || OWN.test(name) ? [] : [name, text(value)],
      ),
  };
}

/** Microseconds of each unit of `grpc-timeout`. */
const UNITS_US: Readonly<Record<string, number>> = { H: 3.6e9, M: 6e7, S: 1e6, m: 1e3, u: 1, n: 1e-3 };

/** Microseconds that the client gives the call; undefined without a limit, NaN for what is no such text. */
export function callTimeoutUs(header: IncomingHttpHeaders): number | undefined {
  const text = header['grpc-timeout'];
  if (text === undefined) return undefined;
  const [, digits = '', unit = ''] = /^([0-9]{1,8})([HMSmun])$/.exec(String(text)) ?? [];
  return digits === '' ? Number.NaN : Number(digits) * (UNITS_US[unit] ?? Number.NaN);
}
