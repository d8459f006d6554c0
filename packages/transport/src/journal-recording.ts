/** What Redis has of recordings, as readers are told it. */
import { decodeJournalFrame, NereidError, type RecordedStep, type Recording } from '@nereid/protocol';
import { encodeName } from './encode-name.ts';
import { parseRecordingId, recordingId } from './journal-names.ts';
import { recordingName } from './journal-step.ts';
import type { RedisClient } from './redis-connection.ts';

/** Where a recording is: its model, and what its keys end in. */
export interface RecordingPlace {
  readonly model: string;
  readonly name: string;
}

/** Undefined where the id is none. */
export function placeOf(id: string): RecordingPlace | undefined {
  const known = parseRecordingId(id);
  if (known === undefined) return undefined;
  const { model, session } = known;
  return { model, name: recordingName(recordingId(model, session)) };
}

/** Of the fields of its hash; undefined where there is none. */
export function recordingOf(
  { model, name }: RecordingPlace,
  fields: Readonly<Record<string, string>>,
): Recording | undefined {
  const { state, first, who } = fields;
  if (state === undefined || first === undefined || who === undefined) return undefined;
  const [kind, correlation, requestId, imported] = JSON.parse(first) as readonly [
    Recording['kind'],
    string | { readonly uint64: string },
    string,
    boolean,
  ];
  const [worker = '', version = '', configSha256 = '', contentHash = ''] = JSON.parse(who) as readonly string[];
  return {
    id: `${encodeName(model)}~${name}`,
    model,
    version,
    kind,
    correlationId: typeof correlation === 'string' ? correlation : BigInt(correlation.uint64),
    requestId,
    state: state as Recording['state'],
    steps: Number(fields.steps),
    bytes: Number(fields.bytes),
    startedMs: Number(fields.started),
    lastMs: Number(fields.last),
    worker,
    configSha256,
    contentHash,
    imported,
  };
}

export function stepOf(frame: Uint8Array): RecordedStep {
  const read = decodeJournalFrame(frame);
  if (read.kind !== 'step') throw new NereidError('INTERNAL', 'broken journal: what should be a step is none');
  return read.step;
}

interface Entry {
  readonly name: string;
  readonly began: string;
}

/** Names of recordings, the newest first, behind `after`: `<began>~<name>`, whether that is still there or not. */
export async function readPage(client: RedisClient, key: string, limit: number, after: string): Promise<Entry[]> {
  const [began = '', name = ''] = after.split('~');
  const from = after === '' ? '+inf' : began;
  const page: Entry[] = [];
  for (let offset = 0; ; ) {
    const wanted = limit - page.length;
    const found = await client.zrevrangebyscore(key, from, '-inf', 'WITHSCORES', 'LIMIT', offset, wanted);
    for (let index = 0; index < found.length; index += 2) {
      const entry = { name: found[index] ?? '', began: found[index + 1] ?? '' };
      // Those that began at the same time come in falling order of their names.
      if (after === '' || Number(entry.began) < Number(began) || entry.name < name) page.push(entry);
    }
    offset += wanted;
    if (page.length >= limit || found.length < 2 * wanted) return page;
  }
}
