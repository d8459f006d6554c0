import { errorInfo } from '@nereid/protocol';
import type { AtMost, Log } from '@nereid/runtime';
import { isUnseen, type PolledModel, type PollSight, pollStep, UNSEEN } from './poll-step.ts';

/** A model of the repositories as a look finds it. */
export interface PolledFolder {
  readonly name: string;
  /** Why the model cannot be loaded whatever its files are; null for none. */
  readonly conflict: string | null;
  /** Changes when any file does that counts. */
  readonly signature: string;
}

export interface RepositoryPollParts {
  readonly log: Log;
  readonly list: () => Promise<readonly PolledFolder[]>;
  /** Models that this coordinator owns, and those that nobody could read and that fall to it. */
  readonly ours: () => readonly string[];
  /** See PollSight. */
  readonly isLoaded: (name: string) => boolean;
  /** Its owner is about it already. */
  readonly isBusy: (name: string) => boolean;
  /** Rejects with why the model is not loaded; one that is as its files are stays as it is. */
  readonly load: (name: string) => Promise<unknown>;
  readonly unload: (name: string) => Promise<unknown>;
  readonly limitLoads: AtMost;
  /** A look is over: there may be models that nobody owns. */
  readonly looked: () => void;
  readonly stopping: () => boolean;
}

/** Follows the repositories of one coordinator: control mode `poll`. */
export interface RepositoryPoll {
  /** The first look: what is there counts as it is. Gives its names. Rejects where the repositories cannot be read. */
  begin(): Promise<readonly string[]>;
  /** One more, unless one is going on. Never rejects. */
  look(): Promise<void>;
  /** Names of the models that are there, whole. */
  present(): readonly string[];
  /** A load that was not begun here has failed. */
  failed(name: string, error: unknown): void;
}

export function createRepositoryPoll(parts: RepositoryPollParts): RepositoryPoll {
  const { log, list, stopping } = parts;
  let models = new Map<string, PolledModel>();
  const busy = new Set<string>();
  /** By model what was said last of its failure, so that it is not said at each look. */
  const told = new Map<string, string>();
  let looking = false;
  let unlisted: string | undefined;

  const failed = (name: string, error: unknown) => {
    if (stopping()) return;
    const model = models.get(name);
    if (model !== undefined) models.set(name, { ...model, failed: true });
    const { message } = errorInfo(error);
    if (told.get(name) !== message) log.warn({ model: name }, `a change of the repository was not taken: ${message}`);
    told.set(name, message);
  };

  const loaded = (name: string) => {
    const model = models.get(name);
    if (model !== undefined) models.set(name, { ...model, failed: false });
    told.delete(name);
  };

  const load = async (name: string) => {
    busy.add(name);
    try {
      await parts.limitLoads(() => parts.load(name));
      loaded(name);
    } catch (error) {
      failed(name, error);
    } finally {
      busy.delete(name);
    }
  };

  const unload = async (name: string) => {
    log.info({ model: name }, 'the model went from the repository: it is unloaded');
    busy.add(name);
    told.delete(name);
    try {
      await parts.unload(name);
    } catch (error) {
      // One that takes longer goes on.
      if (!stopping()) log.warn({ err: error, model: name }, 'the unload of a model that went is not over');
    } finally {
      busy.delete(name);
    }
  };

  /** A model that is in two repositories is in none: Triton unloads it too. */
  const signatures = (folders: readonly PolledFolder[]) =>
    new Map(folders.filter(({ conflict }) => conflict === null).map(({ name, signature }) => [name, signature]));

  const follow = (found: ReadonlyMap<string, string>) => {
    const ours = new Set(parts.ours());
    const next = new Map<string, PolledModel>();
    const due: (() => Promise<void>)[] = [];
    for (const name of new Set([...models.keys(), ...found.keys(), ...ours])) {
      const sight: PollSight = {
        found: found.get(name),
        holder: ours.has(name) ? 'ours' : 'others',
        loaded: parts.isLoaded(name),
        busy: busy.has(name) || parts.isBusy(name),
      };
      const { after, act } = pollStep(models.get(name) ?? UNSEEN, sight);
      if (!isUnseen(after)) next.set(name, after);
      if (act === 'load') due.push(() => load(name));
      if (act === 'unload') due.push(() => unload(name));
    }
    models = next;
    for (const begin of due) void begin();
  };

  const lookOnce = async () => {
    try {
      const folders = await list();
      unlisted = undefined;
      if (!stopping()) follow(signatures(folders));
    } catch (error) {
      const { message } = errorInfo(error);
      if (unlisted !== message) log.warn({ err: error }, 'the repositories could not be looked at: nothing is changed');
      unlisted = message;
    }
  };

  return {
    async begin() {
      const folders = await list();
      const entries = [...signatures(folders)].map(
        ([name, signature]) =>
          [name, { last: signature, settled: signature, tried: signature, failed: false }] as const,
      );
      models = new Map(entries);
      return folders.map(({ name }) => name);
    },
    async look() {
      if (looking || stopping()) return;
      looking = true;
      await lookOnce();
      looking = false;
      if (!stopping()) parts.looked();
    },
    present: () => [...models].filter(([, { settled }]) => settled !== undefined).map(([name]) => name),
    failed,
  };
}
