/**
 * Background requests in one queue under a seed, of a model whose time grows with its rows or does not. A twin gets the
 * same requests of others and none in the background: what becomes of those must be the same in both, event by event.
 * Then with instances that have nothing else to do.
 */
import { type Random, seededRandom } from '@nereid/runtime';
import {
  createScheduler,
  type Decision,
  type QueuedRequest,
  type ScheduleEvent,
  type Scheduler,
} from '@nereid/scheduler';
import { type CreateScheduler, drawQueue, ROWS_MAX } from './queue-play.ts';
import { pick } from './sim-models.ts';

export interface BackgroundPlay {
  readonly failures: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
  readonly config: string;
}

const STEPS = 120;
const INSTANCES = ['a/0', 'a/1', 'b/0'];
const RUN_US = 800;
const STEP_US_MAX = 1_500;
/** What each row adds to RUN_US: nothing, or so much that batches are not to be filled up. */
const ROW_US = [0, RUN_US];
/** Batches after which the rule has seen how the time grows. */
const SEEN = 30;
const DRAIN_ROUNDS = 2_000;

interface Side {
  readonly scheduler: Scheduler;
  readonly running: Map<string, readonly QueuedRequest[]>;
  wakeUs: number | undefined;
}

export function playBackground(seed: number, create: CreateScheduler): BackgroundPlay {
  const random = seededRandom(seed);
  const { text, config } = drawQueue(random);
  const options = { queue_max: 10_000, places_ahead: 0 };
  const failures: string[] = [];
  const counts: Record<string, number> = {};
  const rowUs = pick(random, ROW_US);
  /** Batches of those that somebody waits for which had room for more, and how many of them were filled up, once SEEN ran. */
  let ran = 0;
  let roomy = 0;
  let filledUp = 0;
  const side = (scheduler: Scheduler): Side => ({ scheduler, running: new Map(), wakeUs: undefined });
  const mixed = side(create(config, options));
  const twin = side(createScheduler(config, options));
  const requests = new Map<string, QueuedRequest>();
  const outcomes = new Map<string, number>();
  const cancelled = new Set<string>();
  /** Instances whose place the rule does not have yet. */
  const gone = new Set<string>();
  let nowUs = 0;
  /** From then on instances that run nothing are told, and the twin is left behind. */
  let spares = false;

  const fail = (what: string) => void failures.push(`${nowUs} us: ${what}`);
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const sent = (given: readonly QueuedRequest[]) => {
    // As they came, whatever a wrong rule makes of them.
    const batch = given.map((request) => requests.get(request.id) ?? request);
    for (const { id } of batch) {
      if (cancelled.has(id)) fail(`${id} is sent although it is cancelled`);
      outcomes.set(id, (outcomes.get(id) ?? 0) + 1);
      if (outcomes.get(id) !== 1) fail(`${id} is sent twice`);
    }
    if (batch.length > 1 && rowsOf(batch) > ROWS_MAX) fail(`a batch of ${rowsOf(batch)} rows`);
    if (new Set(batch.map(({ shapeKey }) => shapeKey)).size > 1) fail('a batch of several shapes');
  };
  const take = (of: Side, decisions: readonly Decision[]) => {
    for (const decision of decisions) {
      if (decision.type === 'wake') of.wakeUs = decision.atUs;
      if (decision.type !== 'dispatch') continue;
      of.running.set(decision.instance, decision.batch);
      if (of !== mixed) continue;
      sent(decision.batch);
      const background = decision.batch.filter(isBackground).length;
      if (decision.reason === 'spare') count('spare');
      else if (background > 0) count(rowUs === 0 ? 'filled' : 'filled, though slower');
      if (decision.reason !== 'spare' && ran >= SEEN && background < decision.batch.length) {
        if (background > 0) filledUp++;
        roomy++;
      }
      if (background === decision.batch.length && decision.reason !== 'spare')
        fail('a batch of its own, not said to be');
    }
    if (of.scheduler.waiting === 0) of.wakeUs = undefined;
  };
  const step = (event: ScheduleEvent, isOurs = false) => {
    const decided = mixed.scheduler.step(event, nowUs);
    if (!spares) {
      const alone = isOurs ? [] : twin.scheduler.step(event, nowUs);
      const [told, expected] = [decided, alone].map(withoutBackground);
      if (told !== expected) fail(`${event.type}: ${told} in place of ${expected}`);
      take(twin, alone);
    }
    take(mixed, decided);
    if (spares) offerSpare();
  };
  const offerSpare = () => {
    const idle = INSTANCES.filter((instance) => !mixed.running.has(instance) && !gone.has(instance));
    for (const [index, instance] of idle.entries()) {
      const others = idle.length - index - 1;
      const { waiting } = mixed.scheduler;
      const decided = mixed.scheduler.step({ type: 'instance-spare', instance, others }, nowUs);
      if (decided.length > 0 && waiting > 0 && others === 0) fail('no instance is left to those who wait');
      if (decided.some((decision) => decision.type === 'dispatch' && !decision.batch.every(isBackground)))
        fail('a batch to spare has others in it');
      take(mixed, decided);
    }
    const isIdle = INSTANCES.some((instance) => !mixed.running.has(instance) && !gone.has(instance));
    const { waiting, background = 0 } = mixed.scheduler;
    if (isIdle && waiting === 0 && background > 0) fail('an instance is left idle');
  };
  const arrive = (background: boolean) => {
    const request = drawRequest(random, `${background ? 'b' : 'r'}${requests.size}`, nowUs, background);
    requests.set(request.id, request);
    step({ type: 'arrived', request }, background);
  };
  const cancel = () => {
    const id = pick(random, [...requests.keys()].slice(-10));
    if (!outcomes.has(id)) cancelled.add(id);
    step({ type: 'cancelled', id });
  };
  const leave = (instance: string) => {
    gone.add(instance);
    for (const { running } of [mixed, twin]) running.delete(instance);
  };
  const free = (instance: string) => {
    gone.delete(instance);
    step({ type: 'instance-free', instance });
  };
  const finish = () => {
    const [instance] = mixed.running.keys();
    if (instance === undefined) return;
    const answered = mixed.running.get(instance)?.filter((request) => !isBackground(request)).length ?? 0;
    const rows = rowsOf(mixed.running.get(instance) ?? []);
    ran++;
    if (mixed.scheduler.wants?.ran === true)
      mixed.scheduler.step({ type: 'ran', rows, runUs: RUN_US + rowUs * rows }, nowUs);
    leave(instance);
    if (answered > 0) step({ type: 'answered', requests: answered, runUs: RUN_US });
    free(instance);
  };
  const lose = () => {
    const [instance, batch] = [...mixed.running][0] ?? [];
    if (instance === undefined || batch === undefined) return;
    leave(instance);
    step({ type: 'instance-lost', instance });
    for (const request of batch) {
      outcomes.delete(request.id);
      count('lost');
      step({ type: 'returned', request }, isBackground(request));
    }
    free(instance);
  };
  const passTime = (us: number) => {
    const untilUs = nowUs + us;
    for (let at = mixed.wakeUs; at !== undefined && at <= untilUs; at = mixed.wakeUs) {
      nowUs = Math.max(nowUs, at);
      for (const each of [mixed, twin]) each.wakeUs = undefined;
      step({ type: 'time' });
    }
    nowUs = untilUs;
  };
  const play = () => {
    for (let turn = 0; turn < STEPS && failures.length === 0; turn++) {
      const what = random.next();
      if (what < 0.3) arrive(false);
      else if (what < 0.5) arrive(true);
      else if (what < 0.57 && requests.size > 0) cancel();
      else if (what < 0.8) finish();
      else if (what < 0.83) lose();
      else passTime(Math.floor(random.next() ** 2 * STEP_US_MAX));
    }
  };

  for (const instance of INSTANCES) step({ type: 'instance-free', instance });
  play();
  spares = true;
  play();
  for (let round = 0; round < DRAIN_ROUNDS && failures.length === 0 && mixed.scheduler.background !== 0; round++) {
    finish();
    passTime(STEP_US_MAX);
  }
  if (rowUs > 0 && roomy > 20 && filledUp > roomy / 4) fail(`${filledUp} of ${roomy} batches are slowed by filling`);
  for (const { id } of [...requests.values()].filter(isBackground)) {
    if (failures.length === 0 && !cancelled.has(id) && !outcomes.has(id)) fail(`${id} has not run`);
  }
  return { failures, counts, config: text };
}

function isBackground({ background }: QueuedRequest): boolean {
  return background === true;
}

function rowsOf(batch: readonly QueuedRequest[]): number {
  return batch.reduce((sum, { rows }) => sum + rows, 0);
}

/** What is decided of requests that are not in the background. */
function withoutBackground(decisions: readonly Decision[]): string {
  const told = decisions.map((decision) => {
    if (decision.type === 'wake') return `wake ${decision.atUs}`;
    if (decision.type === 'reject') return `reject ${decision.request.id}`;
    if (decision.type !== 'dispatch') return decision.type;
    const ids = decision.batch.filter((request) => !isBackground(request)).map(({ id }) => id);
    return `${decision.reason} ${decision.instance}: ${ids.join(' ')}`;
  });
  return told.join('; ');
}

function drawRequest(random: Random, id: string, arrivedUs: number, background: boolean): QueuedRequest {
  return {
    id,
    rows: 1 + Math.floor(random.next() ** 3 * ROWS_MAX),
    shapeKey: pick(random, ['', '', '', 'other']),
    arrivedUs,
    priority: pick(random, [0, 1, 2, 3]),
    timeoutUs: pick(random, [0, 0, 1_000, 50_000]),
    deadlineUs: undefined,
    patient: false,
    sender: background ? 'ca-1' : 'gw-1',
    coming: 0,
    sequence: undefined,
    background,
  };
}
