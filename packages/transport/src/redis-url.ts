import { NereidError } from '@nereid/protocol';

const PORT_DEFAULT = 6379;
const SENTINEL_PORT_DEFAULT = 26379;

export interface RedisHost {
  readonly host: string;
  readonly port: number;
}

/** What a --redis-url says. */
export interface RedisAddress {
  readonly form:
    | { readonly type: 'host'; readonly host: RedisHost }
    | { readonly type: 'socket'; readonly path: string }
    | { readonly type: 'sentinel'; readonly sentinels: readonly RedisHost[]; readonly master: string }
    | { readonly type: 'cluster'; readonly nodes: readonly RedisHost[] };
  readonly tls: boolean;
  readonly username?: string;
  readonly password?: string;
  readonly db: number;
  /** The URL without user and password, for logs and messages. */
  readonly shown: string;
}

const FORMS =
  'redis://[user:password@]host[:port][/db], rediss://… (TLS), unix:///path[?db=n], ' +
  'redis-sentinel://host:port,host:port/master-name[?db=n], or for a Cluster redis://host:port,host:port,…';

/** Reads the URL forms of --redis-url. Throws INVALID_ARG, without the password, for anything else. */
export function parseRedisUrl(url: string): RedisAddress {
  const parts = /^([a-z-]+):\/\/([^/?]*)(\/[^?]*)?(?:\?(.*))?$/s.exec(url);
  const [, scheme = '', authority = '', path = '', query = ''] = parts ?? [];
  const at = authority.lastIndexOf('@');
  // A Cluster's list may repeat the scheme before each host.
  const hostList = authority.slice(at + 1);
  const shown = `${scheme}://${hostList}${path}${query === '' ? '' : `?${query}`}`;
  const wrong = (why: string) =>
    new NereidError(
      'INVALID_ARG',
      `redis URL ${parts === null ? '' : `${shown} `}${why}; it has one of the forms ${FORMS}`,
    );
  if (parts === null) throw wrong('cannot be read');

  const credentials = readCredentials(at < 0 ? '' : authority.slice(0, at), wrong);
  const dbText =
    new URLSearchParams(query).get('db') ?? (scheme === 'redis' || scheme === 'rediss' ? path.slice(1) : '');
  if (!/^\d{0,5}$/.test(dbText)) throw wrong(`has the database '${dbText}', which is not a number`);
  const rest = { ...credentials, db: Number(dbText), shown };
  const hosts = (portDefault: number) => hostList.split(',').map((text) => readHost(text, portDefault, wrong));

  switch (scheme) {
    case 'unix':
      if (hostList !== '' || path === '') throw wrong('needs an absolute path');
      return { ...rest, form: { type: 'socket', path: decode(path, wrong) }, tls: false };
    case 'redis-sentinel': {
      const master = decode(path.slice(1), wrong);
      if (master === '') throw wrong("needs the master's name");
      return { ...rest, form: { type: 'sentinel', sentinels: hosts(SENTINEL_PORT_DEFAULT), master }, tls: false };
    }
    case 'redis':
    case 'rediss': {
      const nodes = hosts(PORT_DEFAULT);
      const [host] = nodes;
      const tls = scheme === 'rediss';
      if (nodes.length === 1 && host !== undefined) return { ...rest, form: { type: 'host', host }, tls };
      if (rest.db !== 0) throw wrong(`has the database ${rest.db}, but a Cluster has only database 0`);
      return { ...rest, form: { type: 'cluster', nodes }, tls };
    }
    default:
      throw wrong(`has the unknown scheme '${scheme}'`);
  }
}

type Wrong = (why: string) => NereidError;

function readCredentials(text: string, wrong: Wrong): { username?: string; password?: string } {
  if (text === '') return {};
  const colon = text.indexOf(':');
  const username = decode(colon < 0 ? text : text.slice(0, colon), wrong);
  const password = colon < 0 ? '' : decode(text.slice(colon + 1), wrong);
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) };
}

function readHost(text: string, portDefault: number, wrong: Wrong): RedisHost {
  const [, bracketed, plain, portText] = /^(?:\[([0-9a-fA-F:.%]+)\]|([^:[\]\s]+))(?::(\d{1,5}))?$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined) throw wrong(`has '${text}' where host:port should be`);
  const port = portText === undefined ? portDefault : Number(portText);
  if (port < 1 || port > 65_535) throw wrong(`has the port ${port}`);
  return { host, port };
}

function decode(text: string, wrong: Wrong): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw wrong("has a '%' that begins no escape (write %25)");
  }
}
