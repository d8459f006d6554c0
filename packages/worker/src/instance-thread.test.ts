import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const FROM = /^(?:import|export) (?!type )((?:[^;]*? from )?)'([^']+)';/gm;

/** Packages whose code the module loads, itself or by what it imports beside it. */
function packagesOf(url: URL, seen = new Set<string>()): Set<string> {
  const found = new Set<string>();
  if (seen.has(url.href)) return found;
  seen.add(url.href);
  for (const [, names = '', from = ''] of readFileSync(url, 'utf8').matchAll(FROM)) {
    // Types alone load nothing.
    const listed = /\{([^}]*)\}/
      .exec(names)?.[1]
      ?.split(',')
      .map((name) => name.trim());
    if (listed?.every((name) => name === '' || name.startsWith('type '))) continue;
    if (from.startsWith('./')) for (const one of packagesOf(new URL(from, url), seen)) found.add(one);
    else found.add(from);
  }
  return found;
}

test.each(['thread', 'process'])(
  'the %s of an instance does not load the configuration package: it would start a second later',
  (carrier) => {
    const packages = packagesOf(new URL(`./instance-${carrier}.ts`, import.meta.url));
    expect(packages).toContain('@nereid/protocol');
    expect(packages).not.toContain('@nereid/config');
  },
);
