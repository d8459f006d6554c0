import { describe, expect, it } from 'vitest';
import { adminKey } from '../restricted.ts';
import { admitRoute } from './admin-calls.ts';
import type { Method } from './restrict-routes.ts';

type Caller = { readonly remoteAddress?: string; readonly headers?: Readonly<Record<string, string>> };

/** What a call gets: 'taken', or the status and the text of its refusal. */
function outcome(key: string | undefined, method: Method, path: string, { remoteAddress, headers = {} }: Caller) {
  let got = '';
  const handler = admitRoute(adminKey(key), method, path, () => {
    got = 'taken';
  });
  const reply = {
    code: (status: number) => {
      got = String(status);
      return reply;
    },
    header: () => reply,
    send: () => reply,
  };
  handler({ headers: { host: '127.0.0.1:8000', ...headers }, socket: { remoteAddress } } as never, reply as never);
  return got;
}

const EVICT = ['DELETE', '/nereid/v1/sequences/name'] as const;

describe('admin calls', () => {
  it.each<[string, Caller, string]>([
    ['127.0.0.1', { remoteAddress: '127.0.0.1' }, 'taken'],
    ['127.9.9.9', { remoteAddress: '127.9.9.9' }, 'taken'],
    ['::1', { remoteAddress: '::1' }, 'taken'],
    ['an IPv4 loopback address in IPv6', { remoteAddress: '::ffff:127.0.0.1' }, 'taken'],
    ['another machine', { remoteAddress: '10.0.0.1' }, '403'],
    ['another machine over IPv6', { remoteAddress: '2001:db8::1' }, '403'],
    ['an IPv4 address in IPv6', { remoteAddress: '::ffff:10.0.0.1' }, '403'],
    ['a connection that is gone', {}, '403'],
    ['a proxy here', { remoteAddress: '127.0.0.1', headers: { 'x-forwarded-for': '10.0.0.1' } }, '403'],
    ['a newer proxy here', { remoteAddress: '127.0.0.1', headers: { forwarded: 'for=10.0.0.1' } }, '403'],
    ['one that says only whose it is', { remoteAddress: '127.0.0.1', headers: { 'x-real-ip': '10.0.0.1' } }, '403'],
    ['one that says only what it is', { remoteAddress: '127.0.0.1', headers: { via: '1.1 proxy' } }, '403'],
    [
      'a page of its own',
      { remoteAddress: '::1', headers: { host: '[::1]:8000', origin: 'http://localhost:8000' } },
      'taken',
    ],
    ['a page of another site', { remoteAddress: '127.0.0.1', headers: { origin: 'https://example.org' } }, '403'],
    ['a page whose name leads here', { remoteAddress: '127.0.0.1', headers: { host: 'example.org:8000' } }, '403'],
    ['a page of no name', { remoteAddress: '127.0.0.1', headers: { origin: 'null' } }, '403'],
    ['another machine with some key', { remoteAddress: '10.0.0.1', headers: { 'nereid-admin-key': 'x' } }, '403'],
  ])('without --admin-key, from %s', (_name, caller, expected) => {
    expect(outcome(undefined, ...EVICT, caller)).toBe(expected);
    // An empty option is none.
    expect(outcome('', ...EVICT, caller)).toBe(expected);
  });

  it.each<[string, Caller, string]>([
    ['its own machine without the key', { remoteAddress: '127.0.0.1' }, '403'],
    ['its own machine with the key', { remoteAddress: '127.0.0.1', headers: { 'nereid-admin-key': 'k' } }, 'taken'],
    ['elsewhere with the key', { remoteAddress: '10.0.0.1', headers: { 'nereid-admin-key': 'k' } }, 'taken'],
    ['elsewhere with another', { remoteAddress: '10.0.0.1', headers: { 'nereid-admin-key': 'K' } }, '403'],
  ])('with --admin-key, from %s', (_name, caller, expected) => {
    expect(outcome('k', ...EVICT, caller)).toBe(expected);
  });

  it.each<[Method, string]>([
    ['GET', '/nereid/v1/sequences'],
    ['POST', '/v2/models/name/infer'],
    ['POST', '/v2/repository/models/name/load'],
  ])('are not those that only read, nor those of Triton: %s %s', (method, path) => {
    const handler = () => {};
    expect(admitRoute(adminKey('k'), method, path, handler)).toBe(handler);
  });
});
