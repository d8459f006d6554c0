import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createTextCache } from './text-cache.ts';

it('gives each text of its bytes, whatever came before', () => {
  const cache = createTextCache();
  const text = fc.oneof(fc.string({ maxLength: 60 }), fc.string({ unit: 'grapheme', maxLength: 60 }));
  fc.assert(
    fc.property(fc.array(text, { maxLength: 20 }), (texts) => {
      for (const expected of [...texts, ...texts]) {
        const bytes = Buffer.from(`<${expected}>`);
        expect(cache.text(bytes, 1, bytes.byteLength - 1)).toBe(expected);
      }
    }),
  );
});

it('tells texts apart that share a slot', () => {
  const cache = createTextCache();
  for (let round = 0; round < 2; round++) {
    for (let index = 0; index < 20_000; index++) {
      const bytes = Buffer.from(`name ${index}`);
      expect(cache.text(bytes, 0, bytes.byteLength)).toBe(`name ${index}`);
    }
  }
});

it('reads bytes that are no UTF-8 as replacement characters each time', () => {
  const cache = createTextCache();
  const bytes = Buffer.from([0x61, 0xff, 0x62]);
  for (let round = 0; round < 3; round++) expect(cache.text(bytes, 0, 3)).toBe('a\ufffdb');
});
