import { describe, expect, it } from 'vitest';
import { promotedAlias, replacedAlias, rolledBackAlias } from './alias-changes.ts';
import { type Alias, decodeAliases, encodeAliases, readAlias } from './aliases.ts';

const weighted = (...weights: number[]) => weights.map((weight, index) => ({ version: String(index + 1), weight }));
const alias = (more: Partial<Alias> = {}): Alias => ({ name: 'a', model: 'm', versions: weighted(1, 0), ...more });

describe('an alias as its caller describes it', () => {
  it.each([
    [{ model: 'm', versions: [{ version: '02', weight: 0.5 }] }, { versions: [{ version: '2', weight: 0.5 }] }],
    [{ model: 'm', versions: [{ version: 3, weight: 1 }] }, { versions: [{ version: '3', weight: 1 }] }],
    [{ name: 'a', model: 'm', versions: weighted(0, 1), shadow: null }, { versions: weighted(0, 1) }],
    [{ model: 'm', versions: weighted(1), shadow: { version: '2' } }, { shadow: { version: '2', share: 1 } }],
    [
      { model: 'm', versions: weighted(1), shadow: { version: 2, share: 0.25, atol: 1e-6, rtol: 0 } },
      { shadow: { version: '2', share: 0.25, atol: 1e-6, rtol: 0 } },
    ],
  ])('%j', (given, read) => {
    expect(readAlias('a', given)).toMatchObject({ name: 'a', model: 'm', ...read });
  });

  it.each([
    ['a', 7, "alias 'a' must be a JSON object", undefined],
    ['a', { versions: weighted(1) }, "alias 'a': model must be a model's name", 'model'],
    ['a', { model: 'm' }, 'alias \'a\': versions must be a list of {"version", "weight"}', 'versions'],
    ['a', { model: 'm', versions: [] }, "alias 'a': versions must have one version at least", 'versions'],
    [
      'a',
      { model: 'm', versions: Array.from({ length: 17 }, (_, at) => ({ version: String(at), weight: 1 })) },
      "alias 'a': versions may have 16 versions at most",
      'versions',
    ],
    [
      'a',
      { model: 'm', versions: [...weighted(1), ...weighted(1)] },
      "alias 'a': versions must not name a version twice",
      'versions',
    ],
    [
      'a',
      { model: 'm', versions: [{ version: 'new', weight: 1 }] },
      "alias 'a': versions[0].version must be a version's number, like \"2\"",
      'versions[0].version',
    ],
    [
      'a',
      { model: 'm', versions: [{ version: '1', weight: Number.NaN }] },
      "alias 'a': versions[0].weight must be a number from 0 to 1000000",
      'versions[0].weight',
    ],
    [
      'a',
      { model: 'm', versions: [{ version: '1', weight: 1, wait: 1 }] },
      "alias 'a': versions[0].wait is no member of an alias",
      'versions[0].wait',
    ],
    [
      'a',
      { model: 'm', versions: weighted(1), shadow: { version: '1', share: 2 } },
      "alias 'a': shadow.share must be a number from 0 to 1",
      'shadow.share',
    ],
    [
      'a',
      { name: 'b', model: 'm', versions: weighted(1) },
      "the alias is 'a' by its path and 'b' by its body: leave 'name' out",
      'name',
    ],
    ['a/b', {}, expect.stringContaining('without slashes'), 'name'],
    ['', {}, expect.stringContaining('cannot be an alias'), 'name'],
  ])('%j is refused: %j', (name, given, message, field) => {
    expect(() => readAlias(name, given)).toThrow(expect.objectContaining({ code: 'INVALID_ARG', message, field }));
  });
});

it('what is kept is read back, and what another build has written beside it is left out', () => {
  const kept = alias({ before: weighted(0, 1), shadow: { version: '2', share: 0.5 } });
  const table = new Map([['a', kept]]);
  expect(decodeAliases(encodeAliases(table))).toEqual(table);
  const later = JSON.stringify({ a: { ...JSON.parse(encodeAliases(table)).a, more: 1 }, b: 7 });
  expect(decodeAliases(later)).toEqual(table);
  expect([decodeAliases(undefined).size, decodeAliases('no JSON').size, decodeAliases('[]').size]).toEqual([0, 0, 0]);
});

describe('changes of an alias', () => {
  it.each<[string, Alias | undefined, Alias, Alias]>([
    ['a new one has nothing before it', undefined, alias(), alias()],
    [
      'other weights: those before are remembered',
      alias(),
      alias({ versions: weighted(1, 1) }),
      alias({ versions: weighted(1, 1), before: weighted(1, 0) }),
    ],
    [
      'the same weights: what was remembered stays',
      alias({ before: weighted(0, 1) }),
      alias({ shadow: { version: '2', share: 1 } }),
      alias({ before: weighted(0, 1), shadow: { version: '2', share: 1 } }),
    ],
    [
      'another model: there is nothing to go back to',
      alias({ before: weighted(0, 1) }),
      alias({ model: 'n' }),
      alias({ model: 'n' }),
    ],
  ])('%s', (_rule, known, given, made) => {
    expect(replacedAlias(known, given)).toEqual(made);
  });

  it.each<[string, Alias, string, Alias]>([
    ['all weight to one', alias(), '2', alias({ versions: weighted(0, 1), before: weighted(1, 0) })],
    ['one that has all: nothing changes', alias({ before: weighted(0, 1) }), '1', alias({ before: weighted(0, 1) })],
    [
      'one that it has not had',
      alias(),
      '7',
      alias({ versions: [...weighted(0, 0), { version: '7', weight: 1 }], before: weighted(1, 0) }),
    ],
  ])('promote: %s', (_rule, known, version, made) => {
    expect(promotedAlias(known, version)).toEqual(made);
  });

  it('roll back: as before, once', () => {
    const back = rolledBackAlias(promotedAlias(alias(), '2'));
    expect(back).toEqual(alias());
    expect(() => rolledBackAlias(back)).toThrow(expect.objectContaining({ code: 'ALREADY_EXISTS' }));
  });
});
