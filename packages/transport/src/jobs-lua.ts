import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';

/** BullMQ's scripts that ours are made of, or stand in for. */
const SCRIPTS = {
  take: 'moveToActive-11',
  finish: 'moveToFinished-14',
  putBack: 'moveJobFromActiveToWait-9',
  delay: 'moveToDelayed-11',
  stalled: 'moveStalledJobsToWait-9',
  note: 'addLog-2',
  progress: 'updateProgress-3',
} as const;

/** Hashes of BullMQ's Lua with which our scripts were tested (jobs-scripts.test.ts), with the version that has it. */
const TESTED: ReadonlyMap<string, string> = new Map([['1763298e44b29a59', '6.7.0']]);

const INCLUDE = /^[ \t]*---? ?@include +"([^"]+)"[ \t]*$/gm;
/** Each script says this itself; ours say it once, above what they are made of. */
const RCALL = /^local rcall = redis\.call;?$/m;

/** The Lua of the installed BullMQ. */
export interface BullLua {
  /** Of all that ours are made of. */
  readonly hash: string;
  /** Whether our scripts were tested with it. */
  readonly tested: boolean;
  /** The functions that the bodies use, each after those that it uses itself. */
  readonly functions: string;
  /** What a script does, for a function of KEYS and ARGV. */
  body(script: keyof typeof SCRIPTS): string;
}

/** Undefined where BullMQ's files are not where they are in its package, as where it was bundled. */
export function readBullLua(): BullLua | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve('bullmq');
    return loadBullLua((path) => readFileSync(join(dirname(entry), 'commands', `${path}.lua`), 'utf8'));
  } catch {
    return undefined;
  }
}

/** `read`: the text of a file of its folder of commands, named without its ending. Throws where one is not there. */
export function loadBullLua(read: (path: string) => string): BullLua {
  /** By name, in the order in which they have to stand. */
  const functions = new Map<string, string>();
  const bodies = new Map<string, string>();
  const files = new Map<string, string>();

  const withoutIncludes = (path: string): string => {
    const text = read(path);
    files.set(path, text);
    for (const [, included = ''] of text.matchAll(INCLUDE)) {
      const name = basename(included);
      if (!functions.has(name)) functions.set(name, withoutIncludes(`includes/${name}`));
    }
    return text.replace(INCLUDE, '');
  };

  for (const file of Object.values(SCRIPTS)) bodies.set(file, withoutIncludes(file).replace(RCALL, ''));
  const hash = createHash('sha256');
  for (const path of [...files.keys()].sort()) hash.update(`${path}\n${files.get(path)}\n`);
  const digest = hash.digest('hex').slice(0, 16);
  return {
    hash: digest,
    tested: TESTED.has(digest),
    functions: [...functions.values()].join('\n'),
    body: (script) => bodies.get(SCRIPTS[script]) ?? '',
  };
}
