/** One queue under a seed: the rule that a drawn config asks for, with requests, cancels and instances that come and go. */
import { type ModelConfig, parseModelConfig } from '@nereid/config';
import { QUEUE_FULL } from '@nereid/protocol';
import { type Random, seededRandom } from '@nereid/runtime';
import type { createScheduler, Decision, QueuedRequest, ScheduleEvent } from '@nereid/scheduler';
import { createQueueChecks, type QueueChecks } from './queue-checks.ts';
import { queueRules } from './queue-rules.ts';
import type { Violation } from './sim-checks.ts';
import { pick } from './sim-models.ts';

export type CreateScheduler = typeof createScheduler;

export interface QueuePlay {
  readonly violations: readonly Violation[];
  /** What became of the requests. */
  readonly counts: Readonly<Record<string, number>>;
  readonly config: string;
}

export const ROWS_MAX = 4;
const STEPS = 300;
const INSTANCES = ['a/0', 'a/1', 'b/0'];
/** What a batch takes, as the rule is told; it may hold a batch for a share of that. */
const RUN_US = 800;
const HOLD_SHARE = 1 / 4;
/** Clients that ask again as soon as they are answered do so one after the other, each after so long. */
const RETURN_US_MAX = 60;
const RETURN_SHARE = 0.85;
const STEP_US_MAX = 1_500;
/** All must be over by then. */
const DRAIN_US = 1_000_000;
const DRAIN_STEP_US = 500;
const PRIORITIES = [0, 1, 2, 3, 9];
const TIMEOUTS_US = [0, 0, 1_000, 3_000, 50_000];

/** Levels, policies and delays as the seed has them, as config.pbtxt has them. */
function drawBatching(random: Random): string {
  const policy = () =>
    [
      `max_queue_size: ${pick(random, [0, 0, 3, 6])}`,
      `default_timeout_microseconds: ${pick(random, [0, 2_000, 6_000, 20_000])}`,
      `allow_timeout_override: ${pick(random, ['true', 'false'])}`,
      `timeout_action: ${pick(random, ['REJECT', 'REJECT', 'DELAY'])}`,
    ].join(' ');
  const levels = pick(random, [0, 0, 2, 3, 3]);
  const ofLevels = Array.from({ length: levels }, (_, index) =>
    random.next() < 0.5 ? `priority_queue_policy { key: ${index + 1} value { ${policy()} } }` : '',
  );
  return [
    `max_queue_delay_microseconds: ${pick(random, [0, 0, 1_000])}`,
    pick(random, ['', '', 'preferred_batch_size: [ 2 ]']),
    levels === 0 ? '' : `priority_levels: ${levels} default_priority_level: ${pick(random, [1, 2])}`,
    ...ofLevels,
    random.next() < 0.8 ? `default_queue_policy { ${policy()} }` : '',
  ].join(' ');
}

function configOf(batching: string): ModelConfig {
  return parseModelConfig(
    `name: "queue" backend: "javascript" max_batch_size: ${ROWS_MAX}
     input { name: "A" data_type: TYPE_INT32 dims: [ -1 ] }
     output { name: "B" data_type: TYPE_INT32 dims: [ -1 ] }
     dynamic_batching { ${batching} }`,
    'config.pbtxt',
  );
}

/** The rule's config as the seed has it, and its text. */
export function drawQueue(random: Random): { readonly text: string; readonly config: ModelConfig } {
  const text = drawBatching(random);
  return { text, config: configOf(text) };
}

export function playQueue(seed: number, create: CreateScheduler): QueuePlay {
  const random = seededRandom(seed);
  const { text, config } = drawQueue(random);
  const rules = queueRules(config);
  const scheduler = create(config, { queue_max: 10_000, places_ahead: 0 });
  const violations: Violation[] = [];
  const counts: Record<string, number> = {};
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  const waitUsMax = rules.delayUs === 0 ? RUN_US * HOLD_SHARE : rules.delayUs;
  let clientsReturn = random.next() < 0.3;
  let nowUs = 0;
  const fail: Parameters<typeof createQueueChecks>[0]['fail'] = (check, what) =>
    void violations.push({ check, text: `${nowUs} us: ${what}` });
  const checks = createQueueChecks({ rules, healthy: true, fail });
  const requests: QueuedRequest[] = [];
  const free = new Set<string>();
  const running: { readonly instance: string; readonly batch: readonly QueuedRequest[] }[] = [];
  let wakeUs: number | undefined;
  let freeSinceUs = 0;

  const apply = (decision: Decision) => {
    count(decision.type);
    if (decision.type === 'wake') wakeUs = decision.atUs;
    else if (decision.type === 'reject') {
      if (decision.error.message === QUEUE_FULL.message) checks.full(decision.request.id, nowUs);
      else checks.expired(decision.request.id, nowUs);
    } else if (decision.type === 'dispatch') {
      if (!free.delete(decision.instance)) fail('batch', `${decision.instance} is given two batches`);
      running.push(decision);
      checkBatch(decision.batch, fail);
      checks.dispatched(
        decision.batch.map(({ id }) => id),
        nowUs,
      );
    }
  };
  const step = (event: ScheduleEvent) => {
    for (const decision of scheduler.step(event, nowUs)) apply(decision);
    if (scheduler.waiting === 0) wakeUs = undefined;
    // Nothing is decided yet.
    if (event.type === 'returned') return;
    checks.passed(nowUs);
    // Without a delay one that is held is held from when an instance is free.
    if (free.size === 0) freeSinceUs = nowUs;
    const waitsUs = nowUs - Math.max(checks.oldestUs(), rules.delayUs === 0 ? freeSinceUs : 0);
    if (free.size > 0 && waitsUs > waitUsMax) fail('idle', `one waits for ${waitsUs} us beside a free instance`);
  };
  const passTime = (us: number) => {
    const untilUs = nowUs + us;
    while (wakeUs !== undefined && wakeUs <= untilUs) {
      nowUs = Math.max(nowUs, wakeUs);
      wakeUs = undefined;
      step({ type: 'time' });
    }
    nowUs = untilUs;
  };
  const finish = () => {
    const [ran] = running.splice(Math.floor(random.next() * running.length), 1);
    if (ran === undefined) return;
    const { instance, batch } = ran;
    if (batch.length > 0) step({ type: 'answered', requests: batch.length, runUs: RUN_US });
    free.add(instance);
    step({ type: 'instance-free', instance });
    for (const _ of clientsReturn ? batch : []) {
      passTime(Math.floor(random.next() * RETURN_US_MAX));
      if (random.next() < RETURN_SHARE) arrive();
    }
  };
  const arrive = () => {
    const request: QueuedRequest = {
      id: `r${requests.length}`,
      rows: 1 + Math.floor(random.next() ** 3 * ROWS_MAX),
      shapeKey: pick(random, ['', '', '', 'other']),
      arrivedUs: nowUs,
      priority: pick(random, PRIORITIES),
      timeoutUs: pick(random, TIMEOUTS_US),
      deadlineUs: undefined,
      patient: false,
      sender: 'gw-1',
      coming: 0,
      sequence: undefined,
    };
    requests.push(request);
    checks.arrived(request.id, request, nowUs);
    step({ type: 'arrived', request });
  };
  const cancel = () => {
    const id = pick(random, requests.slice(-10)).id;
    if (checks.waits(id)) count('cancel');
    checks.cancelled(id);
    step({ type: 'cancelled', id });
  };
  const lose = () => {
    const instance = pick(random, INSTANCES);
    free.delete(instance);
    const at = running.findIndex((ran) => ran.instance === instance);
    const lost = at < 0 ? [] : running.splice(at, 1).flatMap(({ batch }) => batch);
    step({ type: 'instance-lost', instance });
    // It comes back later, as one whose batch is over.
    running.push({ instance, batch: [] });
    for (const request of lost) {
      count('lost');
      checks.returned(request.id, request, request.arrivedUs);
      step({ type: 'returned', request });
    }
    if (lost.length > 0) step({ type: 'time' });
  };

  for (const instance of INSTANCES) {
    free.add(instance);
    step({ type: 'instance-free', instance });
  }
  for (let turn = 0; turn < STEPS && violations.length === 0; turn++) {
    const what = random.next();
    if (what < 0.5) arrive();
    else if (what < 0.58 && requests.length > 0) cancel();
    else if (what < 0.8) finish();
    else if (what < 0.82) lose();
    else passTime(Math.floor(random.next() ** 2 * STEP_US_MAX));
  }
  clientsReturn = false;
  for (const endUs = nowUs + DRAIN_US; nowUs < endUs && scheduler.waiting > 0; passTime(DRAIN_STEP_US)) finish();
  drained(requests, checks, fail);
  return { violations, counts, config: text };
}

type Fail = (check: Violation['check'], text: string) => void;

function checkBatch(batch: readonly QueuedRequest[], fail: Fail): void {
  const rows = batch.reduce((sum, request) => sum + request.rows, 0);
  if (batch.length > 1 && rows > ROWS_MAX) fail('batch', `a batch of ${rows} rows`);
  if (new Set(batch.map(({ shapeKey }) => shapeKey)).size > 1) fail('batch', 'a batch of several shapes');
}

/** Everything has come out by the end. */
function drained(requests: readonly QueuedRequest[], checks: QueueChecks, fail: Fail): void {
  const left = requests.filter(({ id }) => checks.waits(id));
  if (left.length > 0) fail('L1', `${left.length} requests still wait: ${left[0]?.id}`);
}
