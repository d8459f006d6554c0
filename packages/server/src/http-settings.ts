import { compileForwardPattern, type HttpServerOptions, parseRestricted, readDoorTls } from '@nereid/gateway';
import type { HttpOptions } from './server-options.ts';
import { settingValue } from './setting-value.ts';

/** What only its user can judge of the HTTP options, read: a pattern, keys, files. */
export type HttpSettings = Pick<HttpServerOptions, 'restricted' | 'forwards' | 'tls' | 'corsOrigins' | 'adminKey'>;

/** Throws INVALID_ARG that names the flag where one of them cannot be used. */
export function httpSettings(http: HttpOptions): HttpSettings {
  const { headerForwardPattern, restrictedApi, tls, corsOrigins, adminKey } = http;
  return {
    restricted: settingValue(parseRestricted(restrictedApi ?? [])),
    ...(headerForwardPattern === undefined
      ? {}
      : { forwards: settingValue(compileForwardPattern(headerForwardPattern)) }),
    ...(tls === undefined ? {} : { tls: settingValue(readDoorTls('http', tls)) }),
    ...(corsOrigins === undefined ? {} : { corsOrigins }),
    ...(adminKey === undefined ? {} : { adminKey }),
  };
}
