/** One simulation: a cluster under a seed and a mix of faults, from its start to its end, with all checks. */
import { type Random, seededRandom } from '@nereid/runtime';
import type { MainRole } from '@nereid/transport';
import type { SequenceKind } from './sequence-steps.ts';
import { knowsModels } from './sim-asking.ts';
import { createSimChecks, type SimChecks, type Violation } from './sim-checks.ts';
import { createSimClients, type SimClients } from './sim-clients.ts';
import { type ClusterSettings, createSimCluster, type SimCluster } from './sim-cluster.ts';
import type { SimNetwork } from './sim-connector.ts';
import { becomesQuiet, endsInOrder } from './sim-end.ts';
import { createSimFaults, type Fault } from './sim-faults.ts';
import { between, pick, SIM_MODELS, type SimModel, trafficOf } from './sim-models.ts';
import { createSimRedis, type SimRedis } from './sim-redis.ts';
import { createSimWorld, type SimWorld } from './sim-world.ts';
import { type Switches, switchOff } from './switches.ts';

export interface Mix {
  /** `none`; one `single` fault; or a `storm` of them. */
  readonly faults: 'none' | 'single' | 'storm';
  readonly kinds: readonly Fault[];
  readonly victims: readonly MainRole[];
}

export interface Simulation {
  readonly seed: number;
  readonly mix: Mix;
  readonly switches?: Switches;
  /** How many processes there are at the start, in place of what the seed says. */
  readonly sizes?: Readonly<Record<MainRole, number>>;
  /** Of the network, in place of what the seed says. */
  readonly network?: Partial<SimNetwork>;
  /** Models that there are, in place of SIM_MODELS. */
  readonly models?: readonly SimModel[];
  /** Models that are asked, each as often as it stands here; all by default. */
  readonly traffic?: readonly SimModel[];
  /** Kinds of clients that send sequences, each as often as it stands here, in place of all. */
  readonly clients?: readonly SequenceKind[];
  /** Whether larger tensors go beside their messages, in place of what the seed says. */
  readonly blobs?: boolean;
  /** Whether what goes wrong may end no sequence. */
  readonly keepsSequences?: boolean;
  /** Whether half of the workers record what they run. */
  readonly records?: boolean;
  /** How long clients begin new things. */
  readonly trafficUs?: number;
  /** What gateways say that each request has left; they say nothing by default, as their clients give no deadline. */
  readonly msLeft?: number;
  /** Makes things go wrong by plan; called when the traffic starts. */
  readonly plan?: (course: Course) => void;
  /** Told of each fault. */
  readonly note?: (text: string) => void;
}

export interface SimReport {
  readonly violations: readonly Violation[];
  readonly requests: number;
  readonly counts: Readonly<Record<string, number>>;
  /** The longest that a request waited for an answer. */
  readonly longestWaitUs: number;
  readonly events: number;
  /** Equal for two runs of one seed. */
  readonly trace: string;
}

const READY_US = 20_000_000;
const TRAFFIC_US = 6_000_000;
const FAULT_GAP_US = 900_000;
/** After the last fault all must be over within this time; nothing in it may take longer. */
const DRAIN_US = 30_000_000;

export async function simulate(simulation: Simulation): Promise<SimReport> {
  const { seed, mix, switches = switchOff(), models = SIM_MODELS, note = () => {} } = simulation;
  const random = seededRandom(seed);
  const world = createSimWorld((process, error) => {
    const stack = error instanceof Error ? error.stack : error;
    checks.fail('crash', `${process} threw ${stack}`);
  });
  const checks = createSimChecks({
    nowUs: world.nowUs,
    once: mix.faults === 'none',
    keeps: simulation.keepsSequences === true,
    // A model that is being loaded anew is not there, as Triton says it; one whose worker is away is not ready.
    allowed: (code, text) =>
      mix.faults !== 'none' && (code === 'UNAVAILABLE' || text.endsWith('has no available versions')),
  });
  const redis = createSimRedis(world);
  const builds = new Map<string, number>();
  const build = (model: string) => builds.get(model) ?? 1;
  const network = {
    latencyUsMin: 50,
    slowUsMax: 150_000,
    latencyUsMax: pick(random, [300, 300, 2_000]),
    slowShare: mix.faults === 'storm' ? pick(random, [0, 0, 0.02, 0.15]) : 0,
    noticeLossShare: mix.faults === 'none' ? 0 : 0.3,
    ...simulation.network,
  };
  const failed = (id: string, what: 'start' | 'stop', error: unknown) => {
    note(`${(world.nowUs() / 1e6).toFixed(6)} s: ${id} does not ${what}: ${error}`);
    if (mix.faults === 'none') checks.fail('L1', `${id} does not ${what}: ${error}`);
  };
  const cluster = createSimCluster({
    world,
    random,
    redis,
    checks,
    switches,
    network,
    build,
    failed,
    settings: settingsOf(random, simulation),
    models,
    healthy: mix.faults === 'none',
    answered: (gateway, request, outcome) => clients.early(gateway, Number(request), outcome),
    ...(simulation.msLeft === undefined ? {} : { msLeft: simulation.msLeft }),
  });
  const clients: SimClients = createSimClients({
    world,
    random,
    cluster,
    checks,
    lateAllowed: mix.faults === 'storm',
    models,
    traffic: simulation.traffic ?? trafficOf(models),
    contract: switches.contract,
    failsAlone: switches.off.has('R19'),
    ...(simulation.clients === undefined ? {} : { kinds: simulation.clients }),
  });
  const reload = (model: string) => {
    builds.set(model, build(model) + 1);
    for (const { process, coordinator, directory, id } of cluster.living('coordinator')) {
      process.at(0, () => {
        // Refused where the coordinator does not own it, or loses it on the way.
        if (directory.owner(model)?.owner === id) coordinator?.loadModel(model).catch(() => {});
      });
    }
  };
  const faults = createSimFaults({
    world,
    random,
    cluster,
    redis,
    clients,
    models,
    kinds: mix.kinds,
    victims: mix.victims,
    sameIds: switches.sameIds,
    reload,
    note: (text) => note(`${(world.nowUs() / 1e6).toFixed(6)} s: ${text}`),
  });
  const { fail, sequencesLeft } = checks;
  const course: Course = { world, redis, cluster, clients, models, fail, sequencesLeft };

  startAll(cluster, simulation.sizes ?? sizesOf(random));
  if (await becomesReady(course)) {
    const fromUs = world.nowUs();
    const trafficUs = simulation.trafficUs ?? TRAFFIC_US;
    const untilUs = fromUs + trafficUs;
    clients.start(untilUs);
    simulation.plan?.(course);
    if (mix.faults === 'storm') faults.storm(fromUs, untilUs, FAULT_GAP_US);
    if (mix.faults === 'single') faults.once(between(random, fromUs + trafficUs / 4, fromUs + trafficUs / 2));
    await world.run(untilUs);
    if ((await drains(course)) && (await becomesQuiet(course))) await endsInOrder(course);
  }
  for (const member of cluster.members) member.close();
  return report(course, checks.violations);
}

export interface Course {
  readonly world: SimWorld;
  readonly redis: SimRedis;
  readonly cluster: SimCluster;
  readonly clients: SimClients;
  readonly models: readonly SimModel[];
  readonly fail: (check: Violation['check'], text: string) => void;
  readonly sequencesLeft: SimChecks['sequencesLeft'];
}

/** Of every third seed the larger requests and answers go beside their messages. */
const BLOB_SEEDS = 3;
const SIM_BLOB_BYTES = 24;

function settingsOf(
  random: Random,
  { seed, blobs, keepsSequences, records = false, mix: { faults } }: Simulation,
): ClusterSettings {
  // What finds no room ends its sequence.
  const isTight = faults === 'storm' && keepsSequences !== true;
  return {
    controlMode: pick(random, ['explicit', 'explicit', 'none']),
    mailbox_messages_max: isTight ? pick(random, [1_000, 1_000, 30]) : 1_000,
    queue_max: isTight ? pick(random, [1_000, 1_000, 20]) : 1_000,
    heldShare: pick(random, [1, 1, 0.6]),
    inline_bytes_max: (blobs ?? seed % BLOB_SEEDS === 0) ? SIM_BLOB_BYTES : Number.POSITIVE_INFINITY,
    records,
  };
}

function sizesOf(random: Random): Readonly<Record<MainRole, number>> {
  return {
    gateway: pick(random, [1, 2, 3]),
    coordinator: pick(random, [1, 2, 2, 3]),
    worker: pick(random, [1, 2, 3, 4]),
  };
}

function startAll(cluster: SimCluster, sizes: Readonly<Record<MainRole, number>>): void {
  for (const role of ['gateway', 'coordinator', 'worker'] as const) {
    for (let count = sizes[role]; count > 0; count--) cluster.start(role);
  }
}

async function becomesReady({ world, cluster, models, fail }: Course): Promise<boolean> {
  const ready = () => cluster.living('gateway').every((member) => knowsModels(member, models));
  await world.run(world.nowUs() + READY_US, ready);
  for (const { id, directory, gateway } of cluster.living('gateway')) {
    for (const { name, versions } of models) {
      if (versions.every((version) => gateway?.modelReady(name, version))) continue;
      const states = directory.record(name)?.versions.map(({ state, reason }) => `${state} ${reason}`);
      fail('L1', `${name} is not ready at ${id}: ${states}, owner ${directory.owner(name)?.owner}`);
    }
  }
  return ready();
}

/** L1: everything that was asked has its outcome. */
async function drains({ world, clients, fail }: Course): Promise<boolean> {
  const answered = () => clients.over();
  await world.run(world.nowUs() + DRAIN_US, answered);
  for (const { token, model, gateway } of clients.waiting()) {
    fail('L1', `request ${token} to ${model} at ${gateway} has no outcome`);
  }
  if (!answered() && clients.waiting().length === 0) fail('L1', 'clients go on with their sequences');
  return answered();
}

function report({ world, redis, clients }: Course, violations: readonly Violation[]): SimReport {
  const counts: Record<string, number> = {};
  let longestWaitUs = 0;
  for (const { outcome, broken, late, fate } of clients.sent) {
    if (fate !== undefined) counts[`step ${fate}`] = (counts[`step ${fate}`] ?? 0) + 1;
    const what = late
      ? 'late'
      : outcome?.ok
        ? 'ok'
        : (outcome?.error.reason ?? outcome?.error.code ?? (broken ? 'broken' : 'waiting'));
    counts[what] = (counts[what] ?? 0) + 1;
  }
  for (const { answeredUs, sentUs } of clients.sent)
    longestWaitUs = Math.max(longestWaitUs, (answeredUs ?? 0) - sentUs);
  const answered = clients.sent.map(({ answeredUs }) => answeredUs);
  const trace = JSON.stringify([world.events, world.nowUs(), redis.writes, answered]);
  return { violations, requests: clients.sent.length, counts, longestWaitUs, events: world.events, trace };
}
