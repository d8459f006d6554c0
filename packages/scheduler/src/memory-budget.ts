import { bytesText } from './bytes-text.ts';

/** Bytes by device: `cpu`, `gpu0`, `gpu1` … */
export type DeviceBytes = Readonly<Record<string, number>>;

/** One load of a model: what it takes from before it begins until all of it has ended. */
export interface LoadClaim {
  /** Names the load among all of one worker. */
  readonly key: string;
  readonly model: string;
  readonly cost: DeviceBytes;
  /** Its model may go when others want its room, since it is loaded again when it is asked for. */
  readonly evictable: boolean;
}

/** What an account has to know of a model beside its loads. */
export interface ModelUse {
  /** It has requests or live sequences. */
  readonly busy: boolean;
  readonly pinned: boolean;
  /** So long after its last request it does not go. */
  readonly keepWarmUs: number;
}

export type BudgetEvent =
  | { readonly type: 'claimed'; readonly claim: LoadClaim }
  /** It is loaded, and takes what was measured. */
  | { readonly type: 'loaded'; readonly key: string; readonly cost: DeviceBytes }
  /** A part of it has ended. */
  | { readonly type: 'resized'; readonly key: string; readonly cost: DeviceBytes }
  /** It serves no more, and still takes what it takes. */
  | { readonly type: 'leaving'; readonly key: string }
  /** Its threads or processes have ended, or it is not wanted any more. */
  | { readonly type: 'left'; readonly key: string }
  | { readonly type: 'used'; readonly model: string; readonly use: ModelUse }
  | { readonly type: 'time' };

export type BudgetDecision =
  | { readonly type: 'admit'; readonly key: string }
  /** It could not be loaded whatever else went. */
  | { readonly type: 'refuse'; readonly key: string; readonly why: string }
  /** `idleUs`: since its last request ended. */
  | { readonly type: 'evict'; readonly model: string; readonly for: string; readonly idleUs: number }
  /** Something may go then. */
  | { readonly type: 'wake'; readonly atUs: number };

/** What a device holds, in bytes. */
export interface DeviceAccount {
  readonly device: string;
  /** Undefined: without a bound. */
  readonly budget: number | undefined;
  /** Loaded, loading, and not yet gone. */
  readonly used: number;
  /** Of that: not yet gone. */
  readonly leaving: number;
  /** Of that: of models that are pinned or that nothing would load again. */
  readonly fixed: number;
  /** How long the model that would go first has been idle; undefined where none may go. */
  readonly idleUs: number | undefined;
}

/** The memory of one worker's models, under a bound per device. */
export interface MemoryBudget {
  step(event: BudgetEvent, nowUs: number): readonly BudgetDecision[];
  account(nowUs: number): readonly DeviceAccount[];
  /** Loads that wait for room, in the order in which they came. */
  readonly waiting: readonly LoadClaim[];
}

/**
 * A model that was loaded and that nobody has asked for goes no sooner: the requests that it was loaded for may be on
 * their way, and would find it gone again and again.
 */
const FIRST_USE_US = 5_000_000;

interface Claim extends LoadClaim {
  cost: DeviceBytes;
  state: 'waiting' | 'loading' | 'loaded' | 'leaving';
  /** It has had a request since it was loaded. */
  served: boolean;
  loadedUs: number;
}

interface Use extends ModelUse {
  readonly lastUs: number;
}

const UNUSED: Use = { busy: false, pinned: false, keepWarmUs: 0, lastUs: 0 };

/**
 * Admits loads in the order in which they came, each once it fits on all of its devices, and has models go for them: the
 * idle ones, whose last request is longest ago first. A load that waits holds back those behind it on its devices, so
 * that what goes for it is not taken by others. What is used, is being loaded and has not yet gone never is more than the
 * budget, but where a model turns out to take more than it was admitted for; then others go for that.
 */
export function createMemoryBudget(budgets: DeviceBytes): MemoryBudget {
  const claims = new Map<string, Claim>();
  const ofModel = new Map<string, Set<Claim>>();
  /** Loads that wait for room: without any, a request that comes or ends decides nothing. */
  let waits = 0;
  /** More is used than there is. */
  let isOver = false;
  const uses = new Map<string, Use>();

  const claimsOf = (model: string): Iterable<Claim> => ofModel.get(model) ?? [];

  const add = (claim: Claim) => {
    claims.set(claim.key, claim);
    ofModel.set(claim.model, (ofModel.get(claim.model) ?? new Set()).add(claim));
    waits++;
  };

  const become = (claim: Claim, state: Claim['state']) => {
    if (claim.state === 'waiting') waits--;
    claim.state = state;
  };

  const remove = (key: string) => {
    const claim = claims.get(key);
    if (claim === undefined) return;
    become(claim, 'leaving');
    claims.delete(key);
    const others = ofModel.get(claim.model);
    others?.delete(claim);
    if (others?.size === 0) ofModel.delete(claim.model);
  };

  const useOf = (model: string) => uses.get(model) ?? UNUSED;
  const isFixed = (claim: Claim) => !claim.evictable || useOf(claim.model).pinned;

  const sum = (device: string, counts: (claim: Claim) => boolean) => {
    let bytes = 0;
    for (const claim of claims.values()) if (counts(claim)) bytes += claim.cost[device] ?? 0;
    return bytes;
  };
  const used = (device: string) => sum(device, ({ state }) => state !== 'waiting');
  const leaving = (device: string) => sum(device, ({ state }) => state === 'leaving');
  const stays = ({ state }: Claim) => state === 'loading' || state === 'loaded';
  const fixed = (device: string, counts: (claim: Claim) => boolean = isFixed) =>
    sum(device, (claim) => stays(claim) && counts(claim));

  /** When a model may go by itself; undefined where only something else can let it. */
  const goesAtUs = (model: string): number | undefined => {
    const { busy, pinned, keepWarmUs, lastUs } = useOf(model);
    if (busy || pinned) return undefined;
    let atUs = lastUs + keepWarmUs;
    for (const claim of claimsOf(model)) {
      if (claim.state !== 'loaded' || !claim.evictable) return undefined;
      if (!claim.served) atUs = Math.max(atUs, claim.loadedUs + FIRST_USE_US);
    }
    return atUs;
  };

  const onDevice = (device: string) => {
    const models = new Set<string>();
    for (const { model, state, cost } of claims.values()) {
      if (state === 'loaded' && (cost[device] ?? 0) > 0) models.add(model);
    }
    return models;
  };

  /** Models that may go from the device, the least recently used first, and when the next one may. */
  const evictable = (device: string, without: string, nowUs: number) => {
    const now: string[] = [];
    let nextUs = Number.POSITIVE_INFINITY;
    for (const model of onDevice(device)) {
      const atUs = model === without ? undefined : goesAtUs(model);
      if (atUs === undefined) continue;
      if (atUs <= nowUs) now.push(model);
      else nextUs = Math.min(nextUs, atUs);
    }
    now.sort((a, b) => useOf(a).lastUs - useOf(b).lastUs || (a < b ? -1 : 1));
    return { now, nextUs };
  };

  /** Has models go until so many bytes more than now are free, once they are gone. */
  const makeRoom = (device: string, bytes: number, model: string, nowUs: number, decisions: BudgetDecision[]) => {
    const { now, nextUs } = evictable(device, model, nowUs);
    let left = bytes - leaving(device);
    for (const victim of now) {
      if (left <= 0) return;
      for (const claim of claimsOf(victim)) {
        become(claim, 'leaving');
        left -= claim.cost[device] ?? 0;
      }
      decisions.push({ type: 'evict', model: victim, for: model, idleUs: nowUs - useOf(victim).lastUs });
    }
    if (left > 0 && nextUs < Number.POSITIVE_INFINITY) decisions.push({ type: 'wake', atUs: nextUs });
  };

  const refusal = ({ model, cost }: Claim): string | undefined => {
    for (const [device, bytes] of Object.entries(cost)) {
      const budget = budgets[device];
      // An earlier load of the model serves until this one can.
      const kept = fixed(device, (claim) => claim.model === model || isFixed(claim));
      if (budget === undefined || bytes <= budget - kept) continue;
      const taken = kept === 0 ? '' : `, of which ${bytesText(kept)} are of models that stay`;
      return `model '${model}' needs ${bytesText(bytes)} on ${device}, and the memory budget is ${bytesText(budget)}${taken}`;
    }
    return undefined;
  };

  const admitWaiting = (nowUs: number, decisions: BudgetDecision[]) => {
    /** Devices that a load before it waits for. */
    const taken = new Set<string>();
    for (const claim of claims.values()) {
      if (claim.state !== 'waiting') continue;
      const why = refusal(claim);
      if (why !== undefined) {
        remove(claim.key);
        decisions.push({ type: 'refuse', key: claim.key, why });
        continue;
      }
      const bounded = Object.entries(claim.cost).filter(
        ([device, bytes]) => bytes > 0 && budgets[device] !== undefined,
      );
      const short = bounded.filter(([device, bytes]) => used(device) + bytes > (budgets[device] ?? 0));
      const isBehind = bounded.some(([device]) => taken.has(device));
      if (short.length === 0 && !isBehind) {
        become(claim, 'loading');
        decisions.push({ type: 'admit', key: claim.key });
        continue;
      }
      for (const [device, bytes] of short) {
        if (taken.has(device)) continue;
        makeRoom(device, used(device) + bytes - (budgets[device] ?? 0), claim.model, nowUs, decisions);
      }
      for (const [device] of bounded) taken.add(device);
    }
  };

  /** What was loaded takes more than was thought. */
  const shrink = (nowUs: number, decisions: BudgetDecision[]) => {
    isOver = false;
    for (const [device, budget] of Object.entries(budgets)) {
      const over = used(device) - budget;
      if (over <= 0) continue;
      isOver = true;
      makeRoom(device, over, '', nowUs, decisions);
    }
  };

  const apply = (event: BudgetEvent, nowUs: number) => {
    switch (event.type) {
      case 'claimed':
        add({ ...event.claim, state: 'waiting', served: false, loadedUs: 0 });
        return;
      case 'loaded': {
        const claim = claims.get(event.key);
        if (claim === undefined) return;
        claim.cost = event.cost;
        isOver = true;
        if (claim.state !== 'loading') return;
        become(claim, 'loaded');
        claim.loadedUs = nowUs;
        return;
      }
      case 'resized': {
        const claim = claims.get(event.key);
        if (claim !== undefined) claim.cost = event.cost;
        return;
      }
      case 'leaving': {
        const claim = claims.get(event.key);
        if (claim?.state === 'waiting') remove(event.key);
        else if (claim !== undefined) become(claim, 'leaving');
        return;
      }
      case 'left':
        remove(event.key);
        return;
      case 'used': {
        const { model, use } = event;
        const before = useOf(model);
        const isUsed = use.busy || before.busy;
        uses.set(model, { ...use, lastUs: isUsed ? nowUs : before.lastUs });
        if (isUsed) for (const claim of claimsOf(model)) claim.served ||= claim.state === 'loaded';
        return;
      }
      case 'time':
        return;
    }
  };

  return {
    step(event, nowUs) {
      apply(event, nowUs);
      const decisions: BudgetDecision[] = [];
      if (waits > 0) admitWaiting(nowUs, decisions);
      if (isOver) shrink(nowUs, decisions);
      return decisions;
    },
    account(nowUs) {
      const devices = new Set(Object.keys(budgets));
      for (const { cost } of claims.values()) for (const device of Object.keys(cost)) devices.add(device);
      return [...devices].sort().map((device) => {
        const [first] = evictable(device, '', nowUs).now;
        return {
          device,
          budget: budgets[device],
          used: used(device),
          leaving: leaving(device),
          fixed: fixed(device),
          idleUs: first === undefined ? undefined : nowUs - useOf(first).lastUs,
        };
      });
    },
    get waiting() {
      return [...claims.values()].filter(({ state }) => state === 'waiting');
    },
  };
}
