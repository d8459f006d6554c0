import type { ModelRecord } from '@nereid/config';
import {
  type ChangedMessage,
  type ChangeMessage,
  type ErrorInfo,
  type ProcessId,
  STOPPING,
  type StaleMessage,
} from '@nereid/protocol';
import type { Clock, Timer } from '@nereid/runtime';
import { type Directory, firstRanked, type Mailbox } from '@nereid/transport';

/** A change is sent again after this: it or its answer may be lost, or the coordinator. */
const AGAIN_MS = 500;
/** The same where no coordinator is known, or the one asked is not the one. */
const ELSEWHERE_AGAIN_MS = 100;
/** What the model's owner has published by then is here, or Redis has lost it. */
const SHOWN_WAIT_MS = 2_000;
/** Changes that are under way at a time; one more is refused. */
const CHANGES_MAX = 1_024;

const BUSY: ErrorInfo = { code: 'UNAVAILABLE', message: 'too many models are being loaded and unloaded; try again' };

/** Undefined where it is done. */
export type ChangeAnswer = ErrorInfo | undefined;

/** Loads and unloads models by way of their owners; the coordinator that a model falls to stands in for one that has none. */
export interface ModelChanges {
  /** Resolves once the model is ready, and known here to be, or with why not. `override` as config's override-ref has it. */
  load(model: string, override: string): Promise<ChangeAnswer>;
  /** Resolves once no new request is taken, also of a model that is not there. */
  unload(model: string, dependents: boolean): Promise<ChangeAnswer>;
  changed(message: ChangedMessage): void;
  /** Whether it answers one of these. */
  stale(message: StaleMessage): boolean;
  /** Ends all that waits; what coordinators have begun goes on. */
  close(): void;
}

export interface ModelChangesParts {
  readonly id: ProcessId;
  readonly clock: Clock;
  readonly mailbox: Mailbox;
  readonly directory: Directory<ModelRecord>;
  /** So long no coordinator may be heard before the change is given up. */
  readonly wait_ms: number;
}

interface Waiting {
  readonly message: ChangeMessage;
  readonly resolve: (answer: ChangeAnswer) => void;
  heardUs: number;
  timer: Timer | undefined;
}

export function createModelChanges(parts: ModelChangesParts): ModelChanges {
  const { clock, mailbox, directory } = parts;
  const waiting = new Map<string, Waiting>();
  let ids = 0;
  let closed = false;

  const end = (one: Waiting, answer: ChangeAnswer) => {
    waiting.delete(one.message.id);
    one.timer?.cancel();
    one.resolve(answer);
  };

  /** Its owner, or who takes it next; undefined where none lives. */
  const coordinatorOf = (model: string): ProcessId | undefined => {
    const live = directory.processes('coordinator');
    const owner = directory.owner(model)?.owner;
    if (owner !== undefined && live.some(({ id }) => id === owner)) return owner;
    return firstRanked(
      model,
      live.filter(({ draining }) => !draining).map(({ id }) => id),
    );
  };

  const put = (one: Waiting) => {
    const { message } = one;
    if (clock.nowUs() - one.heardUs >= parts.wait_ms * 1000) {
      end(one, notHeard(message));
      return;
    }
    const coordinator = coordinatorOf(message.model);
    if (coordinator !== undefined) mailbox.send(coordinator, message);
    putAgain(one, coordinator === undefined ? ELSEWHERE_AGAIN_MS : AGAIN_MS);
  };

  const putAgain = (one: Waiting, afterMs: number) => {
    one.timer?.cancel();
    one.timer = clock.at(clock.nowUs() + afterMs * 1000, () => put(one));
  };

  const ask = (change: Pick<ChangeMessage, 'model' | 'action' | 'override' | 'dependents'>): Promise<ChangeAnswer> => {
    if (closed) return Promise.resolve(STOPPING);
    if (waiting.size >= CHANGES_MAX) return Promise.resolve(BUSY);
    return new Promise((resolve) => {
      const message = { kind: 'change', id: `${parts.id}:m${++ids}`, ...change } as const;
      const one = { message, resolve, heardUs: clock.nowUs(), timer: undefined };
      waiting.set(message.id, one);
      put(one);
    });
  };

  /** What follows on this gateway finds the model as the change has left it. */
  const shown = (model: string, isShown: (record: ModelRecord | undefined) => boolean): Promise<void> => {
    if (isShown(directory.record(model))) return Promise.resolve();
    return new Promise((resolve) => {
      const over = () => {
        unwatch();
        timer.cancel();
        resolve();
      };
      const unwatch = directory.watch((change) => {
        if (change.type === 'record' && change.model === model && isShown(directory.record(model))) over();
      });
      const timer = clock.at(clock.nowUs() + SHOWN_WAIT_MS * 1000, over);
    });
  };

  const isReady = (record: ModelRecord | undefined) => record?.versions.some(({ state }) => state === 'READY') === true;

  const done = async (one: Waiting, { error, contentHash }: ChangedMessage) => {
    const { model, action } = one.message;
    one.timer?.cancel();
    if (error === null) {
      await shown(model, (record) =>
        action === 'load' ? record?.contentHash === contentHash && isReady(record) : !isReady(record),
      );
    }
    one.resolve(error ?? undefined);
  };

  return {
    load: (model, override) => ask({ model, action: 'load', override, dependents: false }),
    unload: (model, dependents) => ask({ model, action: 'unload', override: '', dependents }),
    changed(message) {
      const one = waiting.get(message.id);
      if (one === undefined) return;
      one.heardUs = clock.nowUs();
      if (!message.over) return;
      waiting.delete(message.id);
      void done(one, message);
    },
    stale({ id }) {
      const one = waiting.get(id);
      if (one !== undefined) putAgain(one, ELSEWHERE_AGAIN_MS);
      return one !== undefined;
    },
    close() {
      closed = true;
      for (const one of [...waiting.values()]) end(one, STOPPING);
    },
  };
}

function notHeard({ model, action }: ChangeMessage): ErrorInfo {
  const message = `no coordinator has taken the ${action} of model '${model}' in time; it may be done all the same: see the index, and try again`;
  return { code: 'UNAVAILABLE', message };
}
