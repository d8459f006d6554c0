import { readFileSync, writeFileSync } from 'node:fs';
import { generatedDocs, generatedRegions, withRegion } from './generated-docs.ts';

const page = (file: string) => new URL(`../../../docs/${file}`, import.meta.url);

// Run from a checkout: node packages/cli/dist/write-docs.js
for (const [file, content] of Object.entries(generatedDocs())) writeFileSync(page(file), content);
for (const region of generatedRegions()) {
  writeFileSync(page(region.file), withRegion(readFileSync(page(region.file), 'utf8'), region));
}
