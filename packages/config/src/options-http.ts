/** Options of the HTTP door beside its address, and of what both doors share: keys, shared memory, bytes. */
import { z } from 'zod';
import { type FlagMeta, flagMetas, GATEWAY } from './flag-meta.ts';
import { LIMITS } from './limits.ts';

const http: Pick<FlagMeta, 'topic' | 'roles'> = { topic: 'HTTP', roles: GATEWAY };
const ours: Pick<FlagMeta, 'topic' | 'roles' | 'ours'> = { ...http, ours: true };

/** Printable ASCII without blanks at its ends, as a header carries it. */
const HEADER_VALUE = /^(?:[!-~](?:[ -~]*[!-~])?)?$/;
/** `*`, or scheme, host and port as browsers send them. */
const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/[^\s/?#,]+)$/;

export const httpOptions = {
  httpHeaderForwardPattern: z
    .string()
    .default('')
    .register(flagMetas, {
      ...http,
      form: '<pattern>',
      description:
        'Headers whose names match reach the model as string parameters of infer requests: an expression of RE2, which may match a part of the name, in any case unless it says `(?-i)`. Empty: none.',
    }),
  httpRestrictedApi: z
    .array(z.string().min(1))
    .default([])
    .register(flagMetas, {
      ...http,
      secret: true,
      form: '<api>,…:<header>=<value>',
      description:
        'APIs that answer only where the header has the value: health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging. Repeat it for several headers. Set it in the environment or the file, since any user of the machine sees command lines.',
    }),
  adminKey: z
    .string()
    .regex(HEADER_VALUE)
    .default('')
    .register(flagMetas, {
      ...ours,
      secret: true,
      form: '<key>',
      allowed: 'printable ASCII without blanks at its ends',
      description:
        "What admin calls (those of ours under `/nereid/` that change something) must have in the header `Nereid-Admin-Key`. Empty: only callers on the server's own machine may make them. Set it in the environment or the file, since any user of the machine sees command lines.",
    }),
  httpTlsCert: z
    .string()
    .default('')
    .register(flagMetas, {
      ...ours,
      form: '<file>',
      description:
        'The certificate of the HTTP server, PEM, with those between it and its root behind it; HTTP is then served over TLS only. It and the next two are read again when they change.',
    }),
  httpTlsKey: z
    .string()
    .default('')
    .register(flagMetas, { ...ours, form: '<file>', description: "That certificate's private key, PEM." }),
  httpTlsClientCa: z
    .string()
    .default('')
    .register(flagMetas, {
      ...ours,
      form: '<file>',
      description: 'Serve only clients with a certificate that one of these, PEM, has signed. Empty: all clients.',
    }),
  httpCorsOrigin: z
    .array(z.string().regex(ORIGIN))
    .default([])
    .register(flagMetas, {
      ...ours,
      form: '<origin>',
      allowed: '* or an origin like https://console.example.org, without a path',
      description:
        'An origin whose web pages may call the HTTP API; `*` for all. Repeat it for several. None: no page may.',
    }),
  maxBytesInFlight: z
    .int()
    .min(1)
    .default(LIMITS.bytes_in_flight_max)
    .register(flagMetas, {
      ...ours,
      form: '<bytes>',
      description:
        'Bytes that the requests of this gateway and their answers may take together, from the first byte of a body to the last byte of its answer; a request beyond is refused with 503.',
    }),
  allowCodeUpload: z
    .boolean()
    .default(false)
    .register(flagMetas, {
      ...ours,
      description:
        'Let any client load models from code that it sends (`file:` overrides of JavaScript and other code). Without it that takes the key of `--admin-key`, or, without a key, a server that listens on a loopback address only.',
    }),
  allowClientShm: z
    .boolean()
    .default(true)
    .register(flagMetas, {
      ...http,
      description:
        "Let clients on this machine register shared memory for tensors. Triton's default is false since 2.73; see security.md.",
    }),
};

type HttpFlags = Readonly<z.output<z.ZodObject<typeof httpOptions>>>;

/** What is wrong between these options, naming the flags; undefined if nothing. */
export function httpConflict(options: HttpFlags & { readonly httpMaxInputSize: number }): string | undefined {
  const { httpTlsCert, httpTlsKey, httpTlsClientCa, maxBytesInFlight, httpMaxInputSize } = options;
  if (httpTlsCert !== '' && httpTlsKey === '')
    return '--http-tls-cert needs --http-tls-key: give the key of that certificate';
  if (httpTlsKey !== '' && httpTlsCert === '')
    return '--http-tls-key needs --http-tls-cert: give the certificate of that key';
  if (httpTlsClientCa !== '' && httpTlsCert === '') {
    return '--http-tls-client-ca needs --http-tls-cert and --http-tls-key: without TLS no client has a certificate';
  }
  if (maxBytesInFlight < httpMaxInputSize) {
    return `--max-bytes-in-flight=${maxBytesInFlight} is less than --http-max-input-size=${httpMaxInputSize}: one request of that size could never be taken`;
  }
  return undefined;
}
