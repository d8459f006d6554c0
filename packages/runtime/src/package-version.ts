import { readFileSync } from 'node:fs';

/** The version in the package.json one folder above a module: `packageVersion(import.meta.url)`. */
export function packageVersion(moduleUrl: string): string {
  const content = JSON.parse(readFileSync(new URL('../package.json', moduleUrl), 'utf8')) as { version: string };
  return content.version;
}
