import type { Epoch, ProcessId } from '@nereid/protocol';
import type { DirectoryChange, ProcessRecord } from './directory.ts';
import { type DirectoryAnswer, type DirectoryNews, processState } from './directory-answer.ts';
import type { SharedValue } from './directory-values.ts';

interface Belief<T> {
  value: T;
  /** The run in which it was last seen. */
  run: string;
}

/** What a process believes of the others: the last answer of Redis, and in the grace what it knew before. */
export interface DirectoryBeliefs<R> {
  /** What is known already, for the next call: '' and -1 ask for all. */
  since(nowUs: number): { readonly run: string; readonly version: number };
  /** The highest epoch number ever seen. */
  readonly highest: number;
  isBehind(notice: string): boolean;
  /** Takes an answer in and says what changed by it. An answer older than what is known changes nothing. */
  apply(answer: DirectoryAnswer, nowUs: number): readonly DirectoryChange[];
  processes(): readonly ProcessRecord[];
  owner(model: string): Epoch | undefined;
  record(model: string): R | undefined;
  records(): readonly R[];
  value(name: string): SharedValue | undefined;
  /** Values that only an earlier run has had: the present one has forgotten them (R39). */
  lostValues(): readonly (readonly [name: string, value: SharedValue])[];
}

export interface BeliefsOptions<R> {
  readonly graceUs: number;
  readonly decode: (text: string) => R;
  /** Told of a record that `decode` refuses; the model then has none. */
  readonly unreadable: (model: string, error: unknown) => void;
}

/**
 * In a new run Redis may have forgotten everything. So until the grace ends, what was believed
 * before stays, unless the new run has had it and dropped it (R11); then all is read anew.
 */
export function createDirectoryBeliefs<R>({ graceUs, decode, unreadable }: BeliefsOptions<R>): DirectoryBeliefs<R> {
  const processes = new Map<ProcessId, Belief<ProcessRecord>>();
  const owners = new Map<string, Belief<Epoch>>();
  const records = new Map<string, Belief<{ readonly text: string; readonly read: R | undefined }>>();
  const values = new Map<string, Belief<SharedValue>>();
  let run = '';
  let version = -1;
  let highest = 0;
  let graceUntilUs: number | undefined;

  /** Makes `known` what `seen` is, but for what only an earlier run has had; returns the changed names. */
  const replace = <T>(
    known: Map<string, Belief<T>>,
    seen: ReadonlyMap<string, T>,
    isSame: (a: T, b: T) => boolean,
    inGrace: boolean,
  ): string[] => {
    const changed: string[] = [];
    for (const [name, belief] of known) {
      if (seen.has(name) || (inGrace && belief.run !== run)) continue;
      known.delete(name);
      changed.push(name);
    }
    for (const [name, value] of seen) {
      const belief = known.get(name);
      if (belief === undefined || !isSame(belief.value, value)) changed.push(name);
      known.set(name, { value, run });
    }
    return changed;
  };

  const readRecord = (model: string, text: string) => {
    try {
      return { text, read: decode(text) };
    } catch (error) {
      unreadable(model, error);
      return { text, read: undefined };
    }
  };

  /** What the run has of values, but for those of which an earlier one had later versions that may come back. */
  const seenValues = ({ valueVersions, valueTexts }: DirectoryNews, inGrace: boolean) => {
    const seen = new Map<string, SharedValue>();
    for (const [name, version] of valueVersions) {
      const known = values.get(name);
      if (inGrace && known !== undefined && known.run !== run && known.value.version > version) continue;
      const text = valueTexts.get(name) ?? known?.value.text;
      if (text !== undefined) seen.set(name, { text, version });
    }
    return seen;
  };

  return {
    since: (nowUs) => ({ run, version: graceUntilUs !== undefined && nowUs >= graceUntilUs ? -1 : version }),
    get highest() {
      return highest;
    },
    isBehind: (notice) => {
      const [noticed = '', number = ''] = notice.split(' ');
      return noticed !== run || Number(number) > version;
    },
    apply(answer, nowUs) {
      const { news } = answer;
      if (news === undefined || (answer.run === run && answer.version < version)) return [];
      if (answer.run !== run && run !== '') graceUntilUs = nowUs + graceUs;
      const inGrace = graceUntilUs !== undefined && nowUs < graceUntilUs;
      if (!inGrace) graceUntilUs = undefined;
      run = answer.run;
      version = answer.version;
      for (const epoch of news.owners.values()) highest = Math.max(highest, epoch.number);
      const seenRecords = new Map<string, { readonly text: string; readonly read: R | undefined }>();
      for (const model of news.recorded) {
        const text = news.records.get(model);
        const known = records.get(model)?.value;
        if (known !== undefined && (text === undefined || text === known.text)) seenRecords.set(model, known);
        else if (text !== undefined) seenRecords.set(model, readRecord(model, text));
      }
      return [
        ...replace(processes, news.processes, isSameProcess, inGrace).map((id) => ({ type: 'process', id }) as const),
        ...replace(owners, news.owners, isSameEpoch, inGrace).map((model) => ({ type: 'owner', model }) as const),
        ...replace(records, seenRecords, (a, b) => a.text === b.text, inGrace).map(
          (model) => ({ type: 'record', model }) as const,
        ),
        ...replace(values, seenValues(news, inGrace), isSameValue, inGrace).map(
          (name) => ({ type: 'value', name }) as const,
        ),
      ];
    },
    processes: () => [...processes.values()].map(({ value }) => value),
    owner: (model) => owners.get(model)?.value,
    record: (model) => records.get(model)?.value.read,
    records: () => [...records.values()].flatMap(({ value }) => (value.read === undefined ? [] : [value.read])),
    value: (name) => values.get(name)?.value,
    lostValues: () =>
      [...values].flatMap(([name, belief]) => (belief.run === run ? [] : [[name, belief.value] as const])),
  };
}

function isSameProcess(a: ProcessRecord, b: ProcessRecord): boolean {
  return a.role === b.role && processState(a) === processState(b);
}

function isSameEpoch(a: Epoch, b: Epoch): boolean {
  return a.number === b.number && a.owner === b.owner;
}

function isSameValue(a: SharedValue, b: SharedValue): boolean {
  return a.version === b.version && a.text === b.text;
}
