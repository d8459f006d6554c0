import { type DesiredModel, decodeOverride, type ModelRecord, type OverrideRef, overrideUploads } from '@nereid/config';
import {
  type ChangedMessage,
  type ChangeMessage,
  type ErrorInfo,
  errorInfo,
  NereidError,
  NOT_EXPLICIT,
  type ProcessId,
  STOPPING,
  senderOf,
} from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { Directory, Mailbox } from '@nereid/transport';
import type { Conditions } from './conditions.ts';
import type { DesiredModels } from './desired-models.ts';
import { createTurns } from './in-turn.ts';
import type { KeptUploads } from './kept-uploads.ts';
import type { OwnedModel } from './owned-model.ts';
import type { Owner } from './owner.ts';
import { unloadedWithDependents } from './unloaded-dependents.ts';

export interface ModelChangesParts {
  readonly id: ProcessId;
  readonly log: Log;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  readonly owner: Pick<Owner, 'load' | 'unload'>;
  readonly models: ReadonlyMap<string, OwnedModel>;
  readonly desired: DesiredModels;
  readonly uploads: KeptUploads;
  readonly conditions: Conditions;
  /** The control mode is. */
  readonly explicit: boolean;
  /** Roles are processes of their own. */
  readonly apart: boolean;
  readonly stopping: () => boolean;
  /** Of the model's own files, '' for none; it changes with them. */
  readonly signature: (name: string) => Promise<string>;
}

/** What clients change of the models that are served: first in what the cluster is to serve, then here. */
export interface ModelChanges {
  /** From a gateway; `changed` tells it what comes of it. */
  take(message: ChangeMessage): void;
  /** Resolves once it is ready; rejects with why not. Only with `explicit`. */
  load(name: string, override: OverrideRef | undefined): Promise<ModelRecord>;
  /** Resolves once no new request is taken; `over`, once what was accepted has ended. Only with `explicit`. */
  unload(name: string, dependents: boolean): Promise<{ readonly over: Promise<void> }>;
  /** It is being loaded or unloaded here, as somebody asked. */
  isChanging(name: string): boolean;
  /** Loads and unloads what the cluster is to serve, as others have changed it. */
  converge(): void;
}

/** Changes that are over and whose outcome may be asked for again. */
const OVER_MAX = 1_000;

type Outcome = Pick<ChangedMessage, 'over' | 'error' | 'contentHash'>;

const UNDER_WAY: Outcome = { over: false, error: null, contentHash: '' };

export function createModelChanges(parts: ModelChangesParts): ModelChanges {
  const { id, log, mailbox, directory, owner, models, desired, uploads, conditions } = parts;
  const turns = createTurns();
  /** Of models that are being changed here, so that nothing else is made of them. */
  const changing = new Set<string>();
  /** By the ids of their messages, oldest first. */
  const outcomes = new Map<string, Outcome>();

  const throwUnlessExplicit = () => {
    if (!parts.explicit) throw new NereidError(NOT_EXPLICIT.code, NOT_EXPLICIT.message);
  };

  const isReady = (name: string) => directory.record(name)?.versions.some(({ state }) => state === 'READY') === true;

  /** What is to be loaded now. An override of the config stays until a file changes, one of files does not (Triton). */
  const nextEntry = async (name: string, before: DesiredModel | undefined, override: OverrideRef | undefined) => {
    if (override !== undefined) {
      return override.files === undefined ? { override, files: await parts.signature(name) } : { override };
    }
    const held = before?.override;
    if (held === undefined || held.files !== undefined) return {};
    return (await parts.signature(name)) === before?.files ? withoutImplicit(before) : {};
  };

  const setEntry = (
    name: string,
    entry: DesiredModel | undefined,
    unless: (now: DesiredModel | undefined) => boolean,
  ) =>
    desired.change((all) => {
      if (unless(all.get(name))) return;
      if (entry === undefined) all.delete(name);
      else all.set(name, entry);
    });

  const load = async (name: string, override: OverrideRef | undefined): Promise<ModelRecord> => {
    throwUnlessExplicit();
    changing.add(name);
    const before = desired.current()?.get(name);
    const hash = directory.record(name)?.contentHash;
    const entry = await nextEntry(name, before, override);
    // One that is ready and that only an ensemble wants stays so where this load changes nothing, as in Triton.
    const isImplicit = before?.implicit === true && override === undefined && isReady(name);
    const set: DesiredModel = isImplicit ? { ...entry, implicit: true } : entry;
    await setEntry(name, set, () => false);
    await uploads.keep();
    try {
      const record = await owner.load(name);
      if (before !== undefined) await uploads.release(overrideUploads(before.override ?? {}));
      if (isImplicit && record.contentHash !== hash) await setEntry(name, entry, (now) => !sameEntry(now, set));
      return record;
    } catch (error) {
      // What runs goes on as it was, and what never was is not wanted.
      if (isReady(name) || directory.record(name) === undefined) {
        await setEntry(name, before, (now) => !sameEntry(now, set));
        await uploads.release(overrideUploads(override ?? {}));
      }
      throw error;
    } finally {
      changing.delete(name);
    }
  };

  const unload = async (name: string, dependents: boolean): Promise<{ readonly over: Promise<void> }> => {
    throwUnlessExplicit();
    let dropped: readonly string[] = [];
    await desired.change((all) => {
      changing.add(name);
      const gone = dependents ? unloadedWithDependents(name, all, (model) => directory.record(model)) : [name];
      // Of one that nobody knows there is nothing to say.
      const known = gone.filter((model) => all.has(model));
      dropped = known.flatMap((model) => overrideUploads(all.get(model)?.override ?? {}));
      for (const model of known) all.set(model, { unloaded: true });
    });
    await uploads.release(dropped);
    const over = owner.unload(name);
    changing.delete(name);
    over.catch((error) => log.info({ err: error, model: name }, 'the model is not unloaded yet'));
    await conditions.wait(() => parts.stopping() || models.get(name)?.phase !== 'serving');
    return { over };
  };

  const run = async ({ model, action, override, dependents }: ChangeMessage): Promise<Outcome> => {
    if (action === 'unload') {
      await turns.run(model, () => unload(model, dependents));
      return { over: true, error: null, contentHash: '' };
    }
    const { contentHash } = await turns.run(model, () => load(model, decodeOverride(override)));
    return { over: true, error: null, contentHash };
  };

  /** Another coordinator is to do it. */
  const isElsewhere = (name: string) => {
    const holder = directory.owner(name)?.owner;
    return (parts.stopping() && parts.apart) || (holder !== undefined && holder !== id);
  };

  const answer = ({ model, id: change }: ChangeMessage, outcome: Outcome) =>
    mailbox.send(senderOf(change), { kind: 'changed', model, id: change, ...outcome });

  const passOn = ({ model, id: change }: ChangeMessage) =>
    mailbox.send(senderOf(change), { kind: 'stale', model, id: change, known: directory.owner(model) ?? null });

  const end = (message: ChangeMessage, outcome: Outcome) => {
    outcomes.set(message.id, outcome);
    for (const [other, { over }] of outcomes) {
      if (outcomes.size <= OVER_MAX) break;
      if (over) outcomes.delete(other);
    }
    answer(message, outcome);
  };

  const failed = (message: ChangeMessage, error: ErrorInfo) => {
    if (isElsewhere(message.model)) {
      outcomes.delete(message.id);
      passOn(message);
    } else end(message, { over: true, error, contentHash: '' });
  };

  return {
    take(message) {
      const known = outcomes.get(message.id);
      if (known !== undefined) {
        answer(message, known);
        return;
      }
      if (isElsewhere(message.model)) {
        passOn(message);
        return;
      }
      outcomes.set(message.id, UNDER_WAY);
      answer(message, UNDER_WAY);
      const change = parts.stopping() ? Promise.reject(new NereidError(STOPPING.code, STOPPING.message)) : run(message);
      change.then(
        (outcome) => end(message, outcome),
        (error) => failed(message, errorInfo(error)),
      );
    },
    load: (name, override) => turns.run(name, () => load(name, override)),
    unload: (name, dependents) => turns.run(name, () => unload(name, dependents)),
    isChanging: (name) => changing.has(name),
    converge() {
      const wanted = desired.current();
      if (wanted === undefined || !parts.explicit || parts.stopping()) return;
      for (const { name, phase, awaitsModels } of [...models.values()]) {
        const entry = wanted.get(name);
        if (changing.has(name) || entry === undefined) continue;
        const isUp = phase === 'serving' || phase === 'loading' || awaitsModels;
        // How either ends is published.
        if (entry.unloaded === true && isUp) owner.unload(name).catch(() => {});
        else if (entry.unloaded !== true && phase === 'unloaded') owner.load(name).catch(() => {});
      }
    },
  };
}

function withoutImplicit(entry: DesiredModel | undefined): DesiredModel {
  const { implicit: _, unloaded: __, ...rest } = entry ?? {};
  return rest;
}

function sameEntry(one: DesiredModel | undefined, other: DesiredModel): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
