import { NereidError } from '@nereid/protocol';
import type { Clock, Log, Timer } from '@nereid/runtime';
import {
  type BudgetDecision,
  type BudgetEvent,
  createMemoryBudget,
  type DeviceAccount,
  type DeviceBytes,
  type ModelUse,
} from '@nereid/scheduler';
import { createLoadCosts, type LoadedFiles, type LoadStart } from './load-costs.ts';

export interface ModelMemoryParts {
  readonly clock: Clock;
  readonly log: Log;
  /** `--memory-budget`; a device that it does not name has no bound. */
  readonly budgets: DeviceBytes;
  /** Resident bytes of this process. */
  readonly resident: () => number;
  /** The account has changed. */
  readonly changed: () => void;
}

export interface OpenedLoad extends LoadedFiles {
  /** The model's folder; rejects where it cannot be used, of which each version tells. */
  readonly directory: Promise<string>;
  /** It is loaded again when somebody asks for it, so it may go for others. */
  readonly evictable: boolean;
}

/** The room of one load in the worker's memory. */
export interface LoadRoom {
  /** Resolves once the load may begin. Rejects with UNAVAILABLE where it cannot fit, or is not wanted any more. */
  readonly admitted: Promise<void>;
  /** A version of it is ready. */
  ready(): void;
  /** A version of it is on the way to take no memory, or takes none any more. Each may be said more than once. */
  leaving(version: string): void;
  over(version: string): void;
}

/** Since the worker started. */
export interface MemoryCounts {
  /** That were let begin. */
  readonly loads: number;
  readonly evictions: number;
  /** Of loads that could not fit. */
  readonly refusals: number;
}

/** What of models is loaded on this worker, within its memory budget. */
export interface ModelMemory {
  open(load: OpenedLoad): LoadRoom;
  /** `evict` lets it go; it is called while the model is idle, with why. */
  join(model: string, evict: (why: string) => void): void;
  used(model: string, use: ModelUse): void;
  account(): readonly DeviceAccount[];
  readonly counts: MemoryCounts;
  /** The most that was used of each device at a time. */
  readonly peaks: Readonly<Record<string, number>>;
  /** Leaves no timer. */
  close(): void;
}

interface Room {
  readonly files: LoadedFiles;
  /** By version, but for those that are over. */
  costs: Map<string, DeviceBytes>;
  readonly loading: Set<string>;
  ready: number;
  start: LoadStart | undefined;
  readonly admit: () => void;
  readonly refuse: (error: NereidError) => void;
}

const NOTHING: ReadonlyMap<string, DeviceBytes> = new Map();
const NOT_WANTED = new NereidError('UNAVAILABLE', 'the load is not wanted any more');

export function createModelMemory({ clock, log, budgets, resident, changed }: ModelMemoryParts): ModelMemory {
  /** Without a bound nothing is counted. */
  const isBounded = Object.keys(budgets).length > 0;
  const budget = createMemoryBudget(budgets);
  const costs = createLoadCosts(resident, budgets.cpu);
  const rooms = new Map<string, Room>();
  const evict = new Map<string, (why: string) => void>();
  const peaks: Record<string, number> = {};
  const counts = { loads: 0, evictions: 0, refusals: 0 };
  let keys = 0;
  let wake: Timer | undefined;

  const step = (event: BudgetEvent) => {
    const decisions = budget.step(event, clock.nowUs());
    if (event.type !== 'used') {
      for (const { device, used } of budget.account(clock.nowUs())) peaks[device] = Math.max(peaks[device] ?? 0, used);
    }
    for (const decision of decisions) apply(decision);
    if (event.type !== 'used' || isBounded) changed();
  };

  const apply = (decision: BudgetDecision) => {
    switch (decision.type) {
      case 'admit': {
        const room = rooms.get(decision.key);
        if (room === undefined) return;
        counts.loads++;
        room.start = costs.begin();
        room.admit();
        return;
      }
      case 'refuse':
        counts.refusals++;
        rooms.get(decision.key)?.refuse(new NereidError('UNAVAILABLE', decision.why));
        rooms.delete(decision.key);
        return;
      case 'evict': {
        counts.evictions++;
        const whom = decision.for === '' ? 'what takes more than was thought' : `'${decision.for}'`;
        const why = `${whom}, ${Math.round(decision.idleUs / 1000)} ms after its last request`;
        log.info({ model: decision.model }, `model makes room for ${why}`);
        evict.get(decision.model)?.(why);
        return;
      }
      case 'wake':
        wake?.cancel();
        wake = clock.at(decision.atUs, () => {
          wake = undefined;
          step({ type: 'time' });
        });
        return;
    }
  };

  const costOf = (room: Room): DeviceBytes => {
    const sum: Record<string, number> = {};
    for (const cost of room.costs.values()) {
      for (const [device, bytes] of Object.entries(cost)) sum[device] = (sum[device] ?? 0) + bytes;
    }
    return sum;
  };

  const loaded = (key: string, room: Room) => {
    const cost = costOf(room);
    if (isBounded && room.start !== undefined) costs.measure(room.files, room.start, cost.cpu ?? 0);
    // What was measured counts from the next load on: nothing is taken that was not admitted.
    step({ type: 'loaded', key, cost });
  };

  return {
    open({ directory, evictable, ...files }) {
      const key = `${files.model}/${++keys}`;
      let settle: Pick<Room, 'admit' | 'refuse'> = { admit() {}, refuse() {} };
      const admitted = new Promise<void>((resolve, reject) => {
        settle = { admit: resolve, refuse: reject };
      });
      // Each version says for itself that it cannot be loaded.
      admitted.catch(() => {});
      const loading = new Set(files.versions);
      const going = new Set<string>();
      const room: Room = { files, costs: new Map(), loading, ready: 0, start: undefined, ...settle };
      rooms.set(key, room);
      const claim = (found: ReadonlyMap<string, DeviceBytes>) => {
        // It may not be wanted any more.
        if (rooms.get(key) !== room) return;
        for (const [version, cost] of found) if (loading.has(version)) room.costs.set(version, cost);
        step({ type: 'claimed', claim: { key, model: files.model, cost: costOf(room), evictable } });
      };
      // A folder that cannot be used, or read, is told by the load itself.
      directory
        .then((path) => (isBounded ? costs.of(files, path) : NOTHING))
        .catch(() => new Map<string, DeviceBytes>())
        .then(claim);
      return {
        admitted,
        ready() {
          room.ready++;
          if (room.ready === loading.size) loaded(key, room);
        },
        leaving(version) {
          going.add(version);
          const isAll = [...loading].every((each) => going.has(each));
          if (isAll && rooms.get(key) === room) step({ type: 'leaving', key });
        },
        over(version) {
          if (!loading.delete(version) || rooms.get(key) !== room) return;
          costs.disturb();
          room.costs.delete(version);
          if (loading.size > 0) {
            step({ type: 'resized', key, cost: costOf(room) });
            return;
          }
          rooms.delete(key);
          room.refuse(NOT_WANTED);
          step({ type: 'left', key });
        },
      };
    },
    join: (model, letGo) => void evict.set(model, letGo),
    used: (model, use) => step({ type: 'used', model, use }),
    account: () => budget.account(clock.nowUs()),
    counts,
    peaks,
    close() {
      wake?.cancel();
    },
  };
}
