/** Rate limiters of several workers under a seed: instances that need what their device or what all workers share. */
import { type Random, seededRandom } from '@nereid/runtime';
import type { LimitedInstance, LimitedKey, RateEvent, RateLimiter } from '@nereid/scheduler';
import { type KeptClaim, type KeptClaims, takeClaim } from '../../packages/transport/src/resource-claims.ts';
import type { Violation } from './sim-checks.ts';
import { pick } from './sim-models.ts';

/** How the workers' claims are kept; `true` drops those of workers that are gone. */
export interface LimiterWorld {
  readonly create: () => RateLimiter;
  readonly dropsClaims: boolean;
}

const STEPS = 400;
const INSTANCES_MAX = 5;
/** The most that anybody needs of what all share. */
const GLOBAL_MAX: Readonly<Record<string, number>> = { G: 2, H: 1 };
const LOST_ANSWERS_SHARE = 0.1;
const LOCAL = ['R', 'S'];
/** Calls and ends until all must be over. */
const DRAIN_STEPS = 2_000;

interface Instance {
  readonly limited: LimitedInstance;
  state: 'idle' | 'staged' | 'running';
  executions: number;
  /** The order of staging. */
  stagedAt: number;
}

interface Worker {
  readonly id: string;
  readonly limiter: RateLimiter;
  readonly instances: Map<LimitedKey, Instance>;
}

type Fail = (check: Violation['check'], text: string) => void;

export function playLimiters(seed: number, { create, dropsClaims }: LimiterWorld): readonly Violation[] {
  const random = seededRandom(seed);
  const violations: Violation[] = [];
  const fail: Fail = (check, text) => void violations.push({ check, text });
  const withGlobal = random.next() < 0.5;
  const workers: Worker[] = [];
  let claims: KeptClaims = { claims: new Map(), tickets: 0 };
  let keys = 0;
  let sequence = 0;

  const start = () => {
    const limiter = create();
    const limited = Array.from({ length: 1 + Math.floor(random.next() * INSTANCES_MAX) }, () =>
      drawInstance(random, ++keys, withGlobal),
    );
    limiter.add(limited);
    const instances = limited.map((instance): [LimitedKey, Instance] => [
      instance.key,
      { limited: instance, state: 'idle', executions: 0, stagedAt: 0 },
    ]);
    workers.push({ id: `wk-${keys}`, limiter, instances: new Map(instances) });
  };

  const step = (worker: Worker, event: RateEvent) => {
    for (const key of worker.limiter.step(event)) {
      const instance = worker.instances.get(key);
      if (instance?.state !== 'staged') fail('outcome', `${key} at ${worker.id} is to run and is ${instance?.state}`);
      if (instance === undefined) continue;
      if (!needsGlobal(instance)) checkTurn(worker, instance, fail);
      instance.state = 'running';
      checkStock(workers, worker, instance, fail);
    }
    checkIdle(worker, fail);
  };

  /** The worker tells its claim and hears what it is granted, where the answer is not lost. */
  const call = (worker: Worker) => {
    const living = new Map<string, KeptClaim>();
    for (const [id, claim] of claims.claims) {
      if (!dropsClaims || workers.some((other) => other.id === id)) living.set(id, claim);
    }
    const outcome = takeClaim({ ...claims, claims: living }, worker.id, worker.limiter.shared, true);
    claims = outcome;
    if (outcome.granted && random.next() >= LOST_ANSWERS_SHARE)
      step(worker, { type: 'granted', wish: worker.limiter.shared.wish });
  };

  const stage = (worker: Worker) => {
    const instance = pickIn(random, worker, 'idle');
    if (instance === undefined) return;
    instance.state = 'staged';
    instance.stagedAt = ++sequence;
    step(worker, { type: 'staged', instance: instance.limited.key });
  };
  const end = (worker: Worker, again: boolean) => {
    const instance = pickIn(random, worker, 'running');
    if (instance === undefined) return;
    instance.executions++;
    instance.state = again ? 'staged' : 'idle';
    instance.stagedAt = ++sequence;
    step(worker, { type: 'ended', instance: instance.limited.key, staged: again });
  };
  const unstage = (worker: Worker) => {
    const instance = pickIn(random, worker, 'staged');
    if (instance === undefined) return;
    instance.state = 'idle';
    step(worker, { type: 'unstaged', instance: instance.limited.key });
  };
  const remove = (worker: Worker) => {
    const [key] = pick(random, [...worker.instances]);
    if (worker.instances.size === 1) return;
    worker.instances.delete(key);
    step(worker, { type: 'removed', instance: key });
  };
  const die = (worker: Worker) => {
    workers.splice(workers.indexOf(worker), 1);
    start();
  };

  for (let count = 1 + Math.floor(random.next() * 3); count > 0; count--) start();
  for (let turn = 0; turn < STEPS && violations.length === 0; turn++) {
    const worker = pick(random, workers);
    const what = random.next();
    if (what < 0.35) stage(worker);
    else if (what < 0.65) end(worker, random.next() < 0.5);
    else if (what < 0.7) unstage(worker);
    else if (what < 0.71) remove(worker);
    else if (what < 0.72) die(worker);
    else call(worker);
  }
  const busy = () => workers.some(({ instances }) => [...instances.values()].some(({ state }) => state !== 'idle'));
  for (let turn = 0; turn < DRAIN_STEPS && violations.length === 0 && busy(); turn++) {
    const worker = pick(random, workers);
    if (random.next() < 0.5) end(worker, false);
    else call(worker);
  }
  if (violations.length === 0 && busy()) fail('L1', 'an instance that is to run never does');
  for (const { id, limiter } of workers) {
    if (violations.length === 0 && limiter.shared.held.size > 0) fail('resources', `${id} holds what nothing runs for`);
  }
  return violations;
}

function drawInstance(random: Random, key: LimitedKey, withGlobal: boolean): LimitedInstance {
  const local = LOCAL.flatMap((name) =>
    random.next() < 0.6 ? [{ name, count: 1 + Math.floor(random.next() * 3), global: false }] : [],
  );
  const global = Object.entries(withGlobal ? GLOBAL_MAX : {}).flatMap(([name, most]) =>
    random.next() < 0.5 ? [{ name, count: pick(random, [1, most]), global: true }] : [],
  );
  return { key, device: pick(random, [0, 0, 1]), priority: pick(random, [0, 1, 2]), resources: [...local, ...global] };
}

function pickIn(random: Random, { instances }: Worker, state: Instance['state']): Instance | undefined {
  const found = [...instances.values()].filter((instance) => instance.state === state);
  return found.length === 0 ? undefined : pick(random, found);
}

const needsGlobal = ({ limited }: Instance) => limited.resources.some(({ global }) => global);
const turnOf = ({ limited, executions }: Instance) => executions * Math.max(1, limited.priority);

/** Nobody who waits has an earlier turn. */
function checkTurn({ id, instances }: Worker, instance: Instance, fail: Fail): void {
  for (const other of instances.values()) {
    if (other === instance || other.state !== 'staged') continue;
    const differs = turnOf(other) - turnOf(instance);
    if (differs < 0 || (differs === 0 && other.stagedAt < instance.stagedAt)) {
      fail('order', `${instance.limited.key} at ${id} runs before ${other.limited.key}, whose turn it is`);
    }
  }
}

/** With what has just begun to run, no more is in use than there is; a global one has its greediest anywhere. */
function checkStock(workers: readonly Worker[], worker: Worker, { limited }: Instance, fail: Fail): void {
  for (const { name, global } of limited.resources) {
    const sharing = (global ? workers : [worker])
      .flatMap(({ instances }) => [...instances.values()])
      .filter((other) => global || other.limited.device === limited.device);
    const counts = (instances: readonly Instance[]) => instances.map((other) => needOf(other, name));
    const used = counts(sharing.filter(({ state }) => state === 'running')).reduce((sum, count) => sum + count, 0);
    const most = Math.max(global ? (GLOBAL_MAX[name] ?? 0) : 0, ...counts(sharing));
    if (used > most) fail('resources', `${used} ${name} of ${most} are in use with ${limited.key} at ${worker.id}`);
  }
}

const needOf = ({ limited }: Instance, name: string) =>
  limited.resources.find((need) => need.name === name)?.count ?? 0;

/** Whose turn it is runs, where only its own device is asked and has what it needs. */
function checkIdle({ id, instances }: Worker, fail: Fail): void {
  const waiting = [...instances.values()].filter(({ state }) => state === 'staged');
  if (waiting.some(needsGlobal)) return;
  waiting.sort((a, b) => turnOf(a) - turnOf(b) || a.stagedAt - b.stagedAt);
  const [first] = waiting;
  if (first === undefined) return;
  const running = [...instances.values()].filter(
    ({ state, limited }) => state === 'running' && limited.device === first.limited.device,
  );
  const fits = first.limited.resources.every(({ name, count }) => {
    const used = running.reduce((sum, instance) => sum + needOf(instance, name), 0);
    const same = [...instances.values()].filter(({ limited }) => limited.device === first.limited.device);
    return used + count <= Math.max(...same.map((instance) => needOf(instance, name)));
  });
  if (fits) fail('idle', `${first.limited.key} at ${id} does not run though all that it needs is free`);
}
