import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { generatedDocs, generatedRegions, withRegion } from './generated-docs.ts';

const committed = (file: string) => readFileSync(new URL(`../../../docs/${file}`, import.meta.url), 'utf8');

it.each(Object.entries(generatedDocs()))(
  'docs/%s is what the code says (write it with: node packages/cli/dist/write-docs.js)',
  (file, content) => {
    expect(committed(file)).toBe(content);
  },
);

it.each(generatedRegions())('docs/$file, region $name, is what the code says (write it in the same way)', (region) => {
  const page = committed(region.file);
  expect(withRegion(page, region)).toBe(page);
});

it('a region takes the place of what stood in it and of nothing else', () => {
  const region = { file: 'page.md', name: 'keys', content: 'new\n' };
  const page = 'a\n<!-- generated: keys -->\nold\n<!-- end: keys -->\nb\n';
  expect(withRegion(page, region)).toBe('a\n<!-- generated: keys -->\n\nnew\n\n<!-- end: keys -->\nb\n');
  expect(() => withRegion('a page without it', region)).toThrow('docs/page.md has no region');
});
