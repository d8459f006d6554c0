import { describe, expect, it } from 'vitest';
import { compileForwardPattern, withForwardedHeaders } from './header-forward.ts';

function compiled(pattern: string) {
  const result = compileForwardPattern(pattern);
  if (!result.ok) throw new Error(result.error.message);
  return result.value;
}

describe('a pattern', () => {
  it.each([
    ['matches a whole name', 'X-Seen-.*', 'X-Seen-Colour', true],
    ['matches in any case', 'X-Seen-.*', 'x-seen-colour', true],
    ['matches a part of a name', 'seen', 'X-Seen-Colour', true],
    ['does not match another name', 'X-Seen-.*', 'X-Other', false],
    ['can be anchored', '^seen$', 'X-Seen-Colour', false],
    ['can ask for the case', '(?-i)my_.*', 'My_header', false],
    ['that asks for the case matches in it', '(?-i)my_.*', 'my_header', true],
    ['may have alternatives', '(nvcf-.*|NVCF-.*)', 'Nvcf-Asset', true],
    ["has RE2's classes", '^[[:alpha:]]+\\z', 'Tenant', true],
    ["has RE2's named groups", '(?P<what>tenant)', 'X-Tenant', true],
    ["has RE2's literal text", '\\QX.Y\\E', 'X.Y', true],
    ["has RE2's literal text and no more", '\\QX.Y\\E', 'X-Y', false],
    ['that is empty matches all', '', 'Host', true],
  ])('%s: %s, %s → %s', (_rule, pattern, name, expected) => {
    const forwards = compiled(pattern);
    // The second answer is one that was remembered.
    expect([forwards(name), forwards(name)]).toEqual([expected, expected]);
  });

  it.each(['(', '[a', 'a**', '(?=x)', '(?<!x)y', '(a)\\1', '(?z)'])(
    '%s is refused, naming the flag and a fix',
    (pattern) => {
      expect(compileForwardPattern(pattern)).toMatchObject({
        ok: false,
        error: {
          code: 'INVALID_ARG',
          reason: 'bad_option',
          message: expect.stringMatching(/^--http-header-forward-pattern: '.*' is no RE2 expression .*give e\.g\. /),
        },
      });
    },
  );

  it('that a backtracking engine never ends with is matched', () => {
    expect(compiled('^(a+)+$')(`${'a'.repeat(60_000)}b`)).toBe(false);
  });

  it('is right about more names than it remembers', () => {
    const forwards = compiled('7$');
    const names = Array.from({ length: 3_000 }, (_, index) => `X-${index}`);
    for (const _ of [1, 2]) expect(names.filter(forwards)).toHaveLength(300);
  });
});

describe('forwarded headers', () => {
  const forwards = compiled('^x-|^priority|^triton_|^__proto__|^Sequence_ID|^nereid_');

  it('are strings under the names as sent, behind the parameters', () => {
    const headers = ['Host', 'h', 'X-Seen-Colour', 'red', 'x-size', '5'];
    expect(Object.entries(withForwardedHeaders({ size: 4n }, headers, forwards))).toEqual([
      ['size', 4n],
      ['X-Seen-Colour', 'red'],
      ['x-size', '5'],
    ]);
  });

  it('leave the parameters as they are where none matches', () => {
    const parameters = { size: 4n };
    expect(withForwardedHeaders(parameters, ['Host', 'h'], forwards)).toBe(parameters);
  });

  it('take the place of a parameter of the same name', () => {
    expect(withForwardedHeaders({ 'X-User': 'mallory' }, ['X-User', 'alice'], forwards)).toEqual({ 'X-User': 'alice' });
  });

  it('are read as UTF-8', () => {
    const sent = Buffer.from('größe').toString('latin1');
    expect(withForwardedHeaders({}, ['X-Word', sent], forwards)).toEqual({ 'X-Word': 'größe' });
  });

  it('may be named __proto__', () => {
    const parameters = withForwardedHeaders({}, ['__proto__', 'x'], forwards);
    expect(Object.entries(parameters)).toEqual([['__proto__', 'x']]);
  });

  it.each(['priority', 'Sequence_ID', 'Nereid_Step', 'triton_x', 'TRITON_Y'])('named %s are refused', (name) => {
    expect(() => withForwardedHeaders({}, [name, '1'], forwards)).toThrow(`header '${name}' can not be forwarded`);
  });
});
