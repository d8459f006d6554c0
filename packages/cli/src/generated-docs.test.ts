import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { generatedDocs } from './generated-docs.ts';

it.each(Object.entries(generatedDocs()))(
  'docs/%s is what the code says (write it with: node packages/cli/dist/write-docs.js)',
  (file, content) => {
    expect(readFileSync(new URL(`../../../docs/${file}`, import.meta.url), 'utf8')).toBe(content);
  },
);
