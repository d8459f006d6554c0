import { compareEpochs, type Epoch, NereidError, type ProcessId } from '@nereid/protocol';
import type { Log } from '@nereid/runtime';
import type { Directory } from '@nereid/transport';

export interface LeasesParts {
  readonly id: ProcessId;
  readonly log: Log;
  readonly directory: Directory<unknown>;
  /** The model's lease goes on under this epoch. */
  readonly renewed: (model: string, epoch: Epoch) => void;
  /** Another may own the model by now. */
  readonly lost: (model: string) => void;
}

/**
 * The leases of one coordinator and their epochs. A lease is *held* from `acquire` until it is given
 * back or lost. While it is held its epoch may rise: at `renew`, or where the directory had to take it
 * again in a Redis that began anew.
 */
export interface Leases {
  has(model: string): boolean;
  epoch(model: string): Epoch | undefined;
  models(): readonly string[];
  /** Rejects where another holds it. */
  acquire(model: string): Promise<void>;
  /** Takes a new epoch, above `above`; the lease is lost where another holds it by now. */
  renew(model: string, above?: number): Promise<void>;
  /** Messages may have been lost: each lease takes a new epoch (docs/protocol.md R7). */
  renewAll(): void;
  /** Tries again what could not be renewed. */
  retry(): void;
  /** The directory's belief of the model's owner may have changed. */
  check(model: string): void;
  /** No longer held here, whatever the directory says; `lost` is not called. */
  forget(model: string): void;
}

export function createLeases({ id, log, directory, renewed, lost }: LeasesParts): Leases {
  const epochs = new Map<string, Epoch>();
  /** To be renewed; the number to go above. */
  const due = new Map<string, number>();
  const renewing = new Set<string>();

  const lose = (model: string) => {
    due.delete(model);
    if (epochs.delete(model)) lost(model);
  };

  const goOn = (model: string, epoch: Epoch) => {
    if (!epochs.has(model)) return;
    epochs.set(model, epoch);
    renewed(model, epoch);
  };

  const renew = async (model: string, above = 0) => {
    due.set(model, Math.max(above, due.get(model) ?? 0));
    if (renewing.has(model)) return;
    renewing.add(model);
    try {
      for (let wanted = due.get(model); wanted !== undefined && epochs.has(model); wanted = due.get(model)) {
        const epoch = await directory.acquire(model, id, wanted);
        if (due.get(model) === wanted) due.delete(model);
        if (epoch === undefined) lose(model);
        else goOn(model, epoch);
      }
    } finally {
      renewing.delete(model);
    }
  };

  const retry = () => {
    for (const model of [...due.keys()]) {
      if (!epochs.has(model)) due.delete(model);
      // It stays due.
      else renew(model, due.get(model)).catch((error) => log.warn({ err: error, model }, 'lease not renewed yet'));
    }
  };

  return {
    has: (model) => epochs.has(model),
    epoch: (model) => epochs.get(model),
    models: () => [...epochs.keys()],
    async acquire(model) {
      if (epochs.has(model)) return;
      const epoch = await directory.acquire(model, id);
      if (epoch === undefined) {
        const text = `model '${model}' is owned by coordinator ${directory.owner(model)?.owner}`;
        throw new NereidError('UNAVAILABLE', text);
      }
      epochs.set(model, epoch);
    },
    renew,
    renewAll() {
      for (const model of epochs.keys()) due.set(model, due.get(model) ?? 0);
      retry();
    },
    retry,
    check(model) {
      const held = epochs.get(model);
      if (held === undefined || renewing.has(model)) return;
      const owner = directory.owner(model);
      if (owner === undefined) {
        // Nobody's: forgotten by Redis, or run out.
        due.set(model, due.get(model) ?? 0);
        retry();
      } else if (owner.owner !== id) lose(model);
      else if (compareEpochs(owner, held) > 0) goOn(model, owner);
    },
    forget(model) {
      due.delete(model);
      epochs.delete(model);
    },
  };
}
