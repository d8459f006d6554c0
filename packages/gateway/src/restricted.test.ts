import { describe, expect, it } from 'vitest';
import { API_CATEGORIES, bringsKey, parseRestricted, restrictedKey } from './restricted.ts';

const parsed = (...entries: readonly string[]) => {
  const result = parseRestricted(entries);
  return result.ok ? Object.fromEntries(result.value) : result.error.message;
};

describe('entries', () => {
  it.each<readonly [string, readonly string[], unknown]>([
    ['none restrict nothing', [], {}],
    [
      'give each API its header',
      ['model-repository,statistics:admin-key=secret', 'logging:Log-Key=other'],
      {
        'model-repository': restrictedKey('admin-key', 'secret'),
        statistics: restrictedKey('admin-key', 'secret'),
        logging: restrictedKey('Log-Key', 'other'),
      },
    ],
    [
      'may have blanks around APIs',
      [' health , trace :k=v'],
      { health: restrictedKey('k', 'v'), trace: restrictedKey('k', 'v') },
    ],
    ['may have : and = in the value', ['health:k=a:b=c'], { health: restrictedKey('k', 'a:b=c') }],
  ])('%s', (_rule, entries, expected) => {
    expect(parsed(...entries)).toEqual(expected);
  });

  it.each(API_CATEGORIES)('%s can be restricted', (api) => {
    expect(parsed(`${api}:k=v`)).toHaveProperty([api]);
  });

  it.each<readonly [string, readonly string[], RegExp]>([
    ['without a header', ['health'], /--http-restricted-api: give <api>,…:<header>=<value>/],
    ['without a value', ['health:key'], /give <api>,…:<header>=<value>/],
    ['with an empty value', ['health:key='], /value of 'key' must be/],
    ['with a value that a header cannot carry', ['health:key= x'], /value of 'key' must be/],
    ['with a value of two lines', ['health:key=a\nb'], /value of 'key' must be/],
    ['with an empty name', ['health:=v'], /cannot be the name of a header/],
    ['with a name that no header has', ['health:a b=v'], /'a b' cannot be the name of a header/],
    ['with an unknown API', ['helth:k=v'], /unknown API 'helth'; give some of health, metadata, /],
    ['with an empty API', ['health,:k=v'], /unknown API ''/],
    ['with an API of an earlier entry', ['health:k=v', 'trace,health:k=v'], /'health' is given twice/],
    ['with an API twice', ['health,health:k=v'], /'health' is given twice/],
  ])('%s are refused', (_rule, entries, expected) => {
    expect(parsed(...entries)).toMatch(expected);
  });

  it('are never shown with their value', () => {
    for (const entry of ['helth:k=hunter2', 'health:a b=hunter2', 'health:k= hunter2']) {
      expect(parsed(entry)).not.toContain('hunter2');
    }
  });

  it('of gRPC name its flag', () => {
    const result = parseRestricted(['x:k=v'], 'grpc-restricted-protocol');
    expect(result).toMatchObject({ ok: false, error: { field: 'grpc-restricted-protocol', reason: 'bad_option' } });
  });
});

describe('a key', () => {
  const key = restrictedKey('k', 'sécret');
  /** As Node gives the bytes of a header. */
  const sent = (text: string) => Buffer.from(text).toString('latin1');

  it.each([
    ['the value', sent('sécret'), true],
    ['another of its length', sent('sècret'), false],
    ['a part of it', sent('sécre'), false],
    ['more than it', sent('sécrets'), false],
    ['nothing', '', false],
    ['no header', undefined, false],
  ])('is brought by %s: %s → %s', (_what, given, expected) => {
    expect(bringsKey(key, given)).toBe(expected);
  });
});
