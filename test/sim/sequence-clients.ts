/** Clients that send sequences: step by step, by several gateways, pipelined, numbered; some give up, or never come back. */
import { type InferRequest, REQUEST_DEFAULTS } from '@nereid/protocol';
import type { Random } from '@nereid/runtime';
import type { PlannedStep, SequenceKind, SimSequence, SimStep } from './sequence-steps.ts';
import { type Asking, DEADLINE_US } from './sim-asking.ts';
import type { SentRequest } from './sim-checks.ts';
import type { Member } from './sim-cluster.ts';
import { between, bytesOf, pick, type SimModel } from './sim-models.ts';
import type { SimWorld } from './sim-world.ts';
import type { ClientContract } from './switches.ts';

export interface SequenceClientsOptions {
  readonly world: SimWorld;
  readonly random: Random;
  readonly asking: Asking;
  /** Models that are asked, each as often as it stands here. */
  readonly traffic: readonly SimModel[];
  /** Kinds of clients, each as often as it stands here. */
  readonly kinds?: readonly SequenceKind[];
  readonly contract: ClientContract;
}

export interface SequenceClients {
  /** Begins sequences until that time; each goes on to its end. */
  start(untilUs: number): void;
  /** So many requests at once, by new sequences. */
  burst(requests: number): void;
  /** Sequences that go on. */
  readonly live: number;
}

const KINDS: readonly SequenceKind[] = ['single', 'roaming', 'roaming', 'pipelined', 'pipelined', 'numbered'];
const GAP_US_MAX = 220_000;
const PAUSE_US_MAX = 60_000;
const PIPE_US_MAX = 6_000;
const PIPELINED_MAX = 6;
const STEPS_MAX = 8;
const STARTS_MAX = 3;
const BURST_STEPS = 12;
/** Of sequences: those that never see their END, that have a step cancelled, that ask for a slot in time, that come too late. */
const ABANDONED_SHARE = 0.12;
const CANCELLED_SHARE = 0.1;
const TIMEOUT_SHARE = 0.05;
const IDLE_SHARE = 0.05;
const CANCEL_US_MAX = 60_000;
const TIMEOUT_US = [20_000n, 100_000n, 2_000_000n] as const;
/** A step that was refused, or of which a numbered client does not know the outcome, is tried again so often. */
const TRIES_MAX = 25;
const AGAIN_US_MIN = 20_000;
const AGAIN_US_MAX = 400_000;
const INPUT_LENGTH = 3;

export function createSequenceClients(options: SequenceClientsOptions): SequenceClients {
  const { world, random, asking, traffic, contract, kinds = KINDS } = options;
  const live = new Set<SimSequence>();
  const homes = new Map<SimSequence, Member>();
  let ids = 0;

  const begin = (given: Partial<SimSequence> = {}) => {
    const model = pick(random, traffic);
    const kind = pick(random, kinds);
    ids++;
    const sequence: SimSequence = {
      model,
      version: pick(random, ['', ...model.versions]),
      correlationId: random.next() < 0.5 ? BigInt(ids) : `id ${ids}`,
      kind,
      plan: planOf(model, kind, random),
      steps: [],
      open: 0,
      over: false,
      ...given,
    };
    live.add(sequence);
    next(sequence);
  };

  const finish = (sequence: SimSequence) => {
    sequence.over = true;
    if (sequence.open === 0) {
      live.delete(sequence);
      homes.delete(sequence);
    }
  };

  /** Sends the next step, if its time has come and the client need not wait for answers. */
  const next = (sequence: SimSequence) => {
    const { plan, steps, kind } = sequence;
    if (sequence.over || sequence.open >= (kind === 'pipelined' ? PIPELINED_MAX : 1)) return;
    const planned = plan[steps.length];
    if (planned === undefined) {
      finish(sequence);
      return;
    }
    const nowUs = world.nowUs();
    const step: SimStep = {
      ...planned,
      sequence,
      index: steps.length,
      token: asking.nextToken(),
      firstSentUs: nowUs,
      lastSentUs: nowUs,
      answeredUs: undefined,
      sends: 0,
      gaveUp: false,
      tries: 0,
      fate: 'open',
    };
    steps.push(step);
    sequence.open++;
    send(step);
    if (kind === 'pipelined') world.at(nowUs + between(random, 0, PIPE_US_MAX), () => next(sequence));
  };

  const send = (step: SimStep) => {
    const member = gatewayOf(step);
    if (member === undefined) {
      again(step);
      return;
    }
    step.sends++;
    step.lastSentUs = world.nowUs();
    const { token, cancelUs, saysCancel } = step;
    const saysUs = saysCancel ? Math.min(cancelUs ?? DEADLINE_US, DEADLINE_US) : DEADLINE_US;
    const patience = { cancelUs, deadlineUs: DEADLINE_US, saysUs };
    asking.ask(
      member,
      bodyOf(step),
      { token, step },
      () => patience,
      (request) => answered(step, request),
    );
  };

  const gatewayOf = ({ sequence, sends }: SimStep): Member | undefined => {
    const gateways = asking.gateways();
    if (gateways.length === 0) return undefined;
    const home = homes.get(sequence);
    // Pipelined steps are in order on one connection only.
    if (sequence.kind === 'pipelined' && home !== undefined) return home.process.alive ? home : undefined;
    if (sequence.kind !== 'roaming' && sends === 0 && home !== undefined && gateways.includes(home)) return home;
    const others = gateways.length > 1 ? gateways.filter((member) => member !== home) : gateways;
    const member = pick(random, sequence.kind === 'roaming' ? gateways : others);
    homes.set(sequence, member);
    return member;
  };

  const again = (step: SimStep) => {
    const { sequence } = step;
    if (step.tries++ < TRIES_MAX) {
      world.at(world.nowUs() + between(random, AGAIN_US_MIN, AGAIN_US_MAX), () => send(step));
      return;
    }
    step.fate = 'unknown';
    sequence.open--;
    finish(sequence);
  };

  const answered = (step: SimStep, { broken, fate: told }: SentRequest) => {
    const { sequence } = step;
    const { kind, model, version, correlationId } = sequence;
    const fate = broken || told === undefined ? 'unknown' : told;
    const repeats = kind === 'numbered' || contract.retriesBlindly;
    if ((fate === 'unknown' && repeats) || (fate === 'refused' && kind !== 'pipelined')) {
      again(step);
      return;
    }
    step.fate = fate;
    step.answeredUs = world.nowUs();
    sequence.open--;
    const goesOn = fate === 'applied' || fate === 'failed';
    if (!goesOn || sequence.over) finish(sequence);
    else world.at(world.nowUs() + (sequence.plan[sequence.steps.length]?.pauseUs ?? 0), () => next(sequence));
    if (fate === 'unknown' && contract.reusesIds) begin({ model, version, correlationId });
  };

  return {
    start(untilUs) {
      if (traffic.length === 0) return;
      const goOn = () => {
        if (world.nowUs() >= untilUs) return;
        if (asking.gateways().length > 0) begin();
        world.at(world.nowUs() + between(random, 0, GAP_US_MAX), goOn);
      };
      goOn();
    },
    burst(requests) {
      if (traffic.length === 0 || asking.gateways().length === 0) return;
      for (let count = 0; count < requests; count += BURST_STEPS) begin();
    },
    get live() {
      return live.size;
    },
  };
}

function planOf({ idleUs = 0 }: SimModel, kind: SequenceKind, random: Random): readonly PlannedStep[] {
  const plan: PlannedStep[] = [];
  const change = (at: number, changed: Partial<PlannedStep>) => {
    const planned = plan[at];
    if (planned !== undefined) plan[at] = { ...planned, ...changed };
  };
  const anywhere = () => Math.floor(random.next() * plan.length);
  // A numbered sequence's id is never used again.
  const starts = kind === 'numbered' ? 1 : 1 + Math.floor(random.next() ** 2 * STARTS_MAX);
  for (let run = 0; run < starts; run++) {
    const length = 1 + Math.floor(random.next() * STEPS_MAX);
    const ends = random.next() >= ABANDONED_SHARE;
    for (let step = 1; step <= length; step++) {
      const pauseUs = kind === 'pipelined' ? 0 : random.next() ** 2 * PAUSE_US_MAX;
      plan.push({
        start: step === 1,
        end: ends && step === length,
        pauseUs,
        cancelUs: undefined,
        saysCancel: random.next() < 0.5,
        timeoutUs: 0n,
      });
    }
  }
  if (random.next() < CANCELLED_SHARE) change(anywhere(), { cancelUs: random.next() ** 2 * CANCEL_US_MAX });
  if (random.next() < TIMEOUT_SHARE) change(0, { timeoutUs: pick(random, TIMEOUT_US) });
  if (random.next() < IDLE_SHARE && kind !== 'pipelined') {
    change(anywhere(), { pauseUs: idleUs * between(random, 0.8, 1.5) });
  }
  return plan;
}

function bodyOf({ sequence, token, start, end, timeoutUs, index }: SimStep): InferRequest {
  const { model, version, correlationId, kind } = sequence;
  const data = bytesOf(Array(INPUT_LENGTH).fill(token));
  return {
    ...REQUEST_DEFAULTS,
    modelName: model.name,
    modelVersion: version,
    id: `${token}`,
    correlationId,
    sequenceStart: start,
    sequenceEnd: end,
    timeoutUs,
    ...(kind === 'numbered' ? { sequenceStep: index } : {}),
    inputs: [{ name: 'A', datatype: 'INT32', shape: [1, INPUT_LENGTH], data }],
  };
}
