import type { Epoch, ProcessId } from '@nereid/protocol';
import type { Directory, DirectoryChange, ProcessRecord } from './directory.ts';
import { checkValue, type SharedValue, tooManyValues, VALUES_MAX } from './directory-values.ts';
import { createWatchers } from './watchers.ts';

/** A directory within one process: always up to date, leases never run out. */
export function createLocalDirectory<R>(): Directory<R> {
  const processes = new Map<ProcessId, ProcessRecord>();
  const owners = new Map<string, Epoch>();
  /** Highest epoch number given out per model; outlives releases, so that an epoch never comes twice. */
  const epochs = new Map<string, number>();
  const records = new Map<string, R>();
  const values = new Map<string, SharedValue>();
  const { tell: announce, watch } = createWatchers<DirectoryChange>();

  return {
    async register(process) {
      processes.set(process.id, process);
      announce({ type: 'process', id: process.id });
    },
    async retell(id, hosting) {
      const process = processes.get(id);
      if (process === undefined) return;
      processes.set(id, { ...process, hosting });
      announce({ type: 'process', id });
    },
    async leave(id) {
      if (processes.delete(id)) announce({ type: 'process', id });
      if (processes.size > 0) return;
      for (const name of values.keys()) announce({ type: 'value', name });
      values.clear();
    },
    registered: (id) => processes.has(id),
    processes: (role) => [...processes.values()].filter((process) => process.role === role),
    async acquire(model, owner, above = 0) {
      const holder = owners.get(model);
      if (holder !== undefined && holder.owner !== owner) return undefined;
      const number = Math.max(epochs.get(model) ?? 0, above) + 1;
      const epoch: Epoch = { number, owner };
      epochs.set(model, number);
      owners.set(model, epoch);
      announce({ type: 'owner', model });
      return epoch;
    },
    async release(model, owner) {
      if (owners.get(model)?.owner !== owner) return;
      owners.delete(model);
      announce({ type: 'owner', model });
    },
    holds: (model, owner) => owners.get(model)?.owner === owner,
    owner: (model) => owners.get(model),
    async publish(model, record) {
      records.set(model, record);
      announce({ type: 'record', model });
    },
    async withdraw(model) {
      if (records.delete(model)) announce({ type: 'record', model });
    },
    record: (model) => records.get(model),
    records: () => [...records.values()],
    value: (name) => values.get(name),
    async setValue(name, text, known) {
      checkValue(name, text);
      const held = values.get(name);
      if (known !== undefined && (held?.version ?? 0) > known) return undefined;
      if (held === undefined && values.size >= VALUES_MAX) throw tooManyValues(name);
      const value = { text, version: Math.max(held?.version ?? 0, known ?? 0) + 1 };
      values.set(name, value);
      announce({ type: 'value', name });
      return value;
    },
    watch,
  };
}
