import { type Epoch, NereidError, type ProcessId } from '@nereid/protocol';
import type { ProcessRecord, Role } from './directory.ts';

/** All that lives in Redis at one version; records only where they changed since the version asked from. */
export interface DirectoryNews {
  readonly processes: ReadonlyMap<ProcessId, ProcessRecord>;
  readonly owners: ReadonlyMap<string, Epoch>;
  /** Models that have a record. */
  readonly recorded: ReadonlySet<string>;
  readonly records: ReadonlyMap<string, string>;
  /** Versions of the values that there are; texts only of those that changed, as with records. */
  readonly valueVersions: ReadonlyMap<string, number>;
  readonly valueTexts: ReadonlyMap<string, string>;
}

export interface DirectoryAnswer {
  /** The Redis process and its data set: another after a restart, a failover or a wipe. */
  readonly run: string;
  readonly version: number;
  /** When the script ran, in Redis' time. */
  readonly redisMs: number;
  /** Of the verb. */
  readonly result: unknown;
  /** Absent where the caller has this version. */
  readonly news: DirectoryNews | undefined;
}

/** Reads the script's answer (directory-script.ts); undefined for a call that came too late. */
export function parseDirectoryAnswer(answer: unknown): DirectoryAnswer | undefined {
  if (!Array.isArray(answer)) throw new NereidError('INTERNAL', 'the directory script answered no list');
  if (answer[0] === 'late') return undefined;
  const [run, version, redisMs, result, processes, owners, recorded, records, valueVersions, valueTexts] = answer;
  const news =
    processes === undefined
      ? undefined
      : {
          processes: new Map(pairs(processes).map(([id, text]) => [id, processRecord(id, text)])),
          owners: new Map(pairs(owners).map(([model, text]) => [model, epoch(text)])),
          recorded: new Set((recorded as unknown[]).map(String)),
          records: new Map(pairs(records)),
          valueVersions: new Map(pairs(valueVersions).map(([name, text]) => [name, valueVersion(text)])),
          valueTexts: new Map(pairs(valueTexts)),
        };
  return { run: String(run), version: Number(version), redisMs: Number(redisMs), result, news };
}

function pairs(flat: unknown): [string, string][] {
  const list = flat as readonly unknown[];
  return Array.from({ length: list.length / 2 }, (_, n) => [String(list[2 * n]), String(list[2 * n + 1])]);
}

/** Before the blob host in what the script keeps. */
const BLOBS = 'blobs=';

/** Before the hosting record, as base64 of its JSON. */
const HOSTING = 'hosting=';

/** What the script keeps of a process behind its role; words after the first are such as other builds may leave unread. */
export function processState({ draining, starting, blobHost, hosting }: ProcessRecord): string {
  const words = [draining ? '1' : '0'];
  if (starting === true && !draining) words.push('starting');
  if (blobHost !== undefined) words.push(`${BLOBS}${blobHost}`);
  if (hosting !== undefined) words.push(`${HOSTING}${Buffer.from(JSON.stringify(hosting)).toString('base64url')}`);
  return words.join(' ');
}

/** `role state`, as the script keeps it. */
function processRecord(id: ProcessId, text: string): ProcessRecord {
  const [role, draining, ...words] = text.split(' ');
  const blobHost = words.find((word) => word.startsWith(BLOBS))?.slice(BLOBS.length);
  const hosting = words.find((word) => word.startsWith(HOSTING))?.slice(HOSTING.length);
  return {
    id,
    role: role as Role,
    draining: draining === '1',
    ...(words.includes('starting') ? { starting: true } : {}),
    ...(blobHost === undefined ? {} : { blobHost }),
    ...(hosting === undefined ? {} : { hosting: JSON.parse(Buffer.from(hosting, 'base64url').toString()) }),
  };
}

/** `directory's version text's version`. */
function valueVersion(text: string): number {
  return Number(text.slice(text.indexOf(' ') + 1));
}

/** `number owner`. */
function epoch(text: string): Epoch {
  const space = text.indexOf(' ');
  return { number: Number(text.slice(0, space)), owner: text.slice(space + 1) };
}
