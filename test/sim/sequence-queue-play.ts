/** The rule for sequences under a seed: a drawn config, with clients, an owner that ends sessions, and instances that come, drain, pause and go. */
import { type ModelConfig, parseModelConfig } from '@nereid/config';
import { type Random, seededRandom } from '@nereid/runtime';
import type { Decision, QueuedRequest, ScheduleEvent, SequenceStep } from '@nereid/scheduler';
import type { CreateScheduler } from './queue-play.ts';
import { createSequenceChecks, type SequenceCheck } from './sequence-queue-checks.ts';
import { sequenceRules } from './sequence-queue-rules.ts';
import { pick } from './sim-models.ts';

export interface SequencePlay {
  readonly violations: readonly { readonly check: SequenceCheck; readonly text: string }[];
  /** What became of the steps and sessions. */
  readonly counts: Readonly<Record<string, number>>;
  readonly config: string;
}

const STEPS = 400;
const INSTANCES = 3;
/** What a batch takes, as the rule is told; it may hold a batch for a share of that. */
const RUN_US = 800;
const HOLD_SHARE = 1 / 4;
const STEP_US_MAX = 1_500;
const DRAIN_US = 2_000_000;
const DRAIN_STEP_US = 500;
const TIMEOUTS_US = [0, 0, 0, 2_000, 20_000];

function drawConfig(random: Random): string {
  const rows = pick(random, [0, 1, 2, 3, 4]);
  const delay = pick(random, [0, 0, 1_000]);
  const utilization = pick(random, [0, 0.5, 1]);
  const direct = `direct { max_queue_delay_microseconds: ${delay} minimum_slot_utilization: ${utilization} }`;
  const oldest = `oldest { max_queue_delay_microseconds: ${delay} max_candidate_sequences: ${pick(random, [1, 2, 5])} }`;
  const idle = `max_sequence_idle_microseconds: ${pick(random, [4_000, 12_000, 50_000])}`;
  return `max_batch_size: ${rows} sequence_batching { ${idle} ${pick(random, [direct, oldest])} }`;
}

function configOf(text: string): ModelConfig {
  return parseModelConfig(`name: "sequences" backend: "javascript" ${text}`, 'config.pbtxt');
}

interface Running {
  readonly instance: string;
  readonly batch: readonly QueuedRequest[];
  /** Its instance has been lost since: that it is over gives no place. */
  lost: boolean;
}

export function playSequences(seed: number, create: CreateScheduler): SequencePlay {
  const random = seededRandom(seed);
  const text = drawConfig(random);
  const config = configOf(text);
  const scheduler = create(config, { queue_max: 10_000, places_ahead: 0 });
  const violations: { check: SequenceCheck; text: string }[] = [];
  const counts: Record<string, number> = {};
  const count = (what: string) => {
    counts[what] = (counts[what] ?? 0) + 1;
  };
  let nowUs = 0;
  const fail = (check: SequenceCheck, what: string) => void violations.push({ check, text: `${nowUs} us: ${what}` });
  const checks = createSequenceChecks(sequenceRules(config, RUN_US * HOLD_SHARE), fail);
  const running: Running[] = [];
  /** Those that are there, free or not; an instance that is lost for a while is away. */
  const instances = new Set<string>();
  const away = new Set<string>();
  const drains = new Set<string>();
  /** Sessions whose END was sent here. */
  const ended = new Set<string>();
  let sessionsMade = 0;
  let stepsMade = 0;
  let instancesMade = 0;
  let wakeUs: number | undefined;

  const apply = (decision: Decision) => {
    count(decision.type === 'closed' ? decision.why : decision.type);
    if (decision.type === 'wake') wakeUs = decision.atUs;
    if (decision.type === 'dispatch') running.push({ ...decision, lost: false });
  };
  const step = (event: ScheduleEvent) => {
    const decisions = scheduler.step(event, nowUs);
    for (const decision of decisions) apply(decision);
    if (scheduler.waiting === 0 && scheduler.needsWake !== true) wakeUs = undefined;
    const decides = event.type !== 'returned' && event.type !== 'instance-lost';
    const listed = [...(scheduler.sessions ?? [])];
    checks.stepped({ decisions, listed, waiting: scheduler.waiting, decides }, nowUs);
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

  const arrive = (sequence: SequenceStep) => {
    const request: QueuedRequest = {
      id: `${sequence.session}.${++stepsMade}`,
      rows: 1,
      shapeKey: pick(random, ['', '', '', 'other']),
      arrivedUs: nowUs,
      priority: 0,
      timeoutUs: pick(random, TIMEOUTS_US),
      deadlineUs: undefined,
      patient: false,
      sender: 'gw-1',
      coming: 0,
      sequence,
    };
    if (sequence.end) ended.add(sequence.session);
    checks.arrived(request, nowUs);
    step({ type: 'arrived', request });
  };
  const open = () => [...checks.sessions.keys()].filter((id) => !ended.has(id));
  const start = () => {
    const session = `s${++sessionsMade}`;
    const live = open();
    const replaces = live.length > 0 && random.next() < 0.2 ? pick(random, live) : undefined;
    if (replaces !== undefined) {
      count('again');
      ended.add(replaces);
    }
    arrive({ session, start: true, end: random.next() < 0.1, replaces });
  };
  const goOn = () => {
    const live = open();
    if (live.length > 0)
      arrive({ session: pick(random, live), start: false, end: random.next() < 0.15, replaces: undefined });
  };

  const appear = () => {
    const instance = `wk/${++instancesMade}`;
    instances.add(instance);
    if (random.next() < 0.3) bind(instance);
    free(instance);
  };
  const free = (instance: string) => {
    checks.instance(instance, 'free', nowUs);
    step({ type: 'instance-free', instance });
  };
  const bind = (instance: string) => {
    count('bound');
    const session = `s${++sessionsMade}`;
    checks.bound(session, { instance, slot: 0 }, nowUs);
    step({ type: 'bound', session, instance, slot: 0 });
  };
  const lose = (instance: string) => {
    count('lost');
    checks.instance(instance, 'lost', nowUs);
    for (const ran of running) if (ran.instance === instance) ran.lost = true;
    step({ type: 'instance-lost', instance });
  };
  const sessionOver = (session: string) => {
    count('over');
    checks.sessionOver(session, nowUs);
    step({ type: 'session-over', session });
  };
  const giveBack = (request: QueuedRequest) => {
    if (checks.sessions.get(request.sequence?.session ?? '')?.out !== request.id) return;
    count('returned');
    checks.returned(request, nowUs);
    step({ type: 'returned', request });
  };
  const over = ({ id, sequence }: QueuedRequest) => {
    if (sequence === undefined) return;
    checks.stepOver(sequence.session, id, sequence.end, nowUs);
    step({ type: 'step-over', id, ended: sequence.end });
  };

  const finish = () => {
    const [ran] = running.splice(Math.floor(random.next() * running.length), 1);
    if (ran === undefined) return;
    const isUndone = random.next() < 0.05;
    for (const request of ran.batch) (isUndone ? giveBack : over)(request);
    step(isUndone ? { type: 'time' } : { type: 'answered', requests: ran.batch.length, runUs: RUN_US });
    if (!ran.lost) free(ran.instance);
  };
  /** Its worker is not heard of for a while: its batch goes on. */
  const pause = () => {
    const instance = pick(random, [...instances]);
    if (instance === undefined || away.has(instance)) return;
    away.add(instance);
    lose(instance);
  };
  const comeBack = (instance: string) => {
    away.delete(instance);
    drains.delete(instance);
    const at = running.find((ran) => ran.instance === instance);
    // Its place is taken by a batch that it still has, unless nobody can tell any more what became of that.
    if (at === undefined || random.next() < 0.3) free(instance);
    else at.lost = false;
  };
  /** Its worker is gone: what it ran did not run, as far as anybody knows, if it was a START; else its session is lost. */
  const kill = (instance: string) => {
    instances.delete(instance);
    if (!away.delete(instance)) lose(instance);
    drains.delete(instance);
    for (const ran of running.filter((one) => one.instance === instance)) {
      running.splice(running.indexOf(ran), 1);
      for (const request of ran.batch) if (request.sequence?.start === true) giveBack(request);
    }
    for (const { id, place, begun } of [...checks.sessions.values()])
      if (begun && place?.instance === instance) sessionOver(id);
    step({ type: 'time' });
  };
  const drain = () => {
    const instance = pick(random, [...instances]);
    if (instance === undefined || away.has(instance) || drains.has(instance)) return;
    count('draining');
    drains.add(instance);
    checks.instance(instance, 'draining', nowUs);
    step({ type: 'instance-draining', instance });
  };
  const change = () => {
    const what = random.next();
    const [first] = away;
    if (first !== undefined && what < 0.5) (what < 0.3 ? comeBack : kill)(first);
    else if (what < 0.6 || instances.size === 0) appear();
    else if (what < 0.75) pause();
    else if (what < 0.9) drain();
    else kill(pick(random, [...instances]));
  };

  for (let made = 0; made < INSTANCES; made++) appear();
  for (let turn = 0; turn < STEPS && violations.length === 0; turn++) {
    const what = random.next();
    if (what < 0.18) start();
    else if (what < 0.5) goOn();
    else if (what < 0.54 && checks.sessions.size > 0) sessionOver(pick(random, [...checks.sessions.keys()]));
    else if (what < 0.8) finish();
    else if (what < 0.83) change();
    else passTime(Math.floor(random.next() ** 2 * STEP_US_MAX));
  }
  for (const instance of [...instances]) if (away.has(instance) || drains.has(instance)) kill(instance);
  if (instances.size === 0) appear();
  if (random.next() < 0.3) {
    checks.draining();
    step({ type: 'draining' });
  }
  const isLeft = () => scheduler.waiting > 0 || checks.sessions.size > 0;
  for (const endUs = nowUs + DRAIN_US; nowUs < endUs && isLeft() && violations.length === 0; passTime(DRAIN_STEP_US))
    finish();
  if (isLeft()) fail('left', `${scheduler.waiting} steps and ${checks.sessions.size} sessions are left`);
  if (scheduler.needsWake === true) fail('left', 'a wake is wished for nothing');
  return { violations, counts, config: text };
}
