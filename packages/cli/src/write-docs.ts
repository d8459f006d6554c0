import { writeFileSync } from 'node:fs';
import { generatedDocs } from './generated-docs.ts';

// Run from a checkout: node packages/cli/dist/write-docs.js
for (const [file, content] of Object.entries(generatedDocs())) {
  writeFileSync(new URL(`../../../docs/${file}`, import.meta.url), content);
}
