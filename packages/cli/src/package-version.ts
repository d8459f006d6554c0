import { readFileSync } from 'node:fs';

/** The version in this package's package.json, which stands beside `src` and `dist` alike. */
export function packageVersion(): string {
  const text = readFileSync(new URL('../package.json', import.meta.url), 'utf8');
  const content = JSON.parse(text) as { readonly version: string };
  return content.version;
}
