import { DEFAULTS, type DesiredModel, LIMITS } from '@nereid/config';
import { createAtMost, type Log } from '@nereid/runtime';
import type { Mailbox } from '@nereid/transport';
import { type BulkRuns, openBulkRuns } from './bulk-runs.ts';
import type { Conditions } from './conditions.ts';
import type { CoordinatorParts } from './coordinator.ts';
import type { DesiredModels } from './desired-models.ts';
import { addDesiredWorkersMetric } from './desired-workers-metric.ts';
import { createEnsembleCalls, type EnsembleCalls } from './ensemble-calls.ts';
import { createIntake, type Intake } from './intake.ts';
import { createJobIntake, type JobIntake } from './job-intake.ts';
import type { KeptUploads } from './kept-uploads.ts';
import { createModelChanges, type ModelChanges } from './model-changes.ts';
import { hasSince, type OwnedModel } from './owned-model.ts';
import { createOwner, type Owner } from './owner.ts';
import { createPassOn } from './pass-on.ts';
import { type Receivers, receive } from './receive.ts';
import { createRunNotes } from './run-notes.ts';
import type { StatisticsKeeper } from './statistics-keeper.ts';
import { createStatisticsMetrics, type StatisticsMetrics } from './statistics-metrics.ts';
import { createTicks, type Ticks } from './ticks.ts';

/** What exists from start to stop. */
export interface Running {
  readonly mailbox: Mailbox;
  readonly metrics: StatisticsMetrics;
  readonly intake: Intake;
  readonly jobs: JobIntake | undefined;
  readonly bulk: BulkRuns | undefined;
  readonly ensembleCalls: EnsembleCalls;
  readonly owner: Owner;
  readonly changes: ModelChanges;
  readonly ticks: Ticks;
  /** Hears no more of directory and transport. */
  readonly unlink: () => void;
}

/** What its parts share with who starts and stops it. */
export interface CoordinatorState {
  readonly models: Map<string, OwnedModel>;
  readonly conditions: Conditions;
  readonly keeper: StatisticsKeeper;
  readonly desired: DesiredModels;
  readonly uploads: KeptUploads;
  readonly stopping: () => boolean;
  /** Since when; never, while it is not. */
  readonly stoppedUs: () => number;
  readonly handsOver: () => boolean;
  /** Looks for models that nobody owns. */
  readonly takeFree: () => void;
}

const TAKEOVER_WAIT_MS = 10_000;
/** A job's request that no queue knows is without its answer for so long before it runs again. */
const JOB_ANSWER_WAIT_MS = 1_000;

/** Opens the mailbox and all that hears what comes in. */
export function openCoordinator(parts: CoordinatorParts, state: CoordinatorState): Running {
  const { id, clock, directory, log, options } = parts;
  const { models, conditions, keeper, stopping } = state;
  let receivers: Receivers | undefined;
  const mailbox = parts.transport.open(id, (messages) => {
    if (receivers === undefined) return;
    for (const message of messages) receive(receivers, message);
  });
  const metrics = createStatisticsMetrics(parts.registry, options.responseCache);
  const notes = createRunNotes({ id, clock });
  const ensembleCalls = createEnsembleCalls({ ...parts, timing: parts.timing });
  const intake = createIntake({
    ...{ id, clock, mailbox, directory, models, notes },
    stopping,
    arrived: (model) => owner.arrived(model),
    handingOver: () => stopping() && state.handsOver(),
    awaits: (caller) =>
      ensembleCalls.opened?.id === caller || [...models.values()].some((model) => hasSince(model, state.stoppedUs())),
    taking: (name) => owner.taking(name),
    apart: parts.timing !== undefined,
    early_max: options.queueMax ?? LIMITS.requests_queued_max,
  });
  const jobs =
    parts.jobs === undefined
      ? undefined
      : createJobIntake({
          ...parts,
          queues: parts.jobs,
          intake,
          notes,
          largeTensors: parts.transport.largeTensors,
          stopping,
          answerWaitMs: JOB_ANSWER_WAIT_MS,
        });
  const passOn = createPassOn(mailbox, () => jobs);
  const owner = createOwner({
    id,
    clock,
    log,
    mailbox,
    directory,
    reader: parts.reader,
    metrics,
    keeper,
    conditions,
    models,
    stopping,
    placement: options.placement ?? 'all',
    apart: parts.timing !== undefined,
    answer: intake.answer,
    ensembleCalls,
    passOn,
    largeTensors: parts.transport.largeTensors,
    jobs,
    taken: intake.taken,
    loadsOnDemand: options.controlMode === 'explicit',
    implied: (name) => imply(state.desired, name, log),
    notes,
    limitLoads: createAtMost(options.modelLoadThreads ?? DEFAULTS.model_load_threads),
    limits: {
      queue_max: options.queueMax ?? LIMITS.requests_queued_max,
      instance_depth: options.instanceDepth,
      rate_limit: options.rateLimit ?? false,
      unload_wait_ms: LIMITS.unload_wait_ms,
      on_demand_wait_ms: LIMITS.on_demand_wait_ms,
      takeover_wait_ms: options.takeoverWaitMs ?? TAKEOVER_WAIT_MS,
    },
  });
  const changes = createModelChanges({
    ...{ id, log, mailbox, directory, owner, models, conditions, stopping },
    desired: state.desired,
    uploads: state.uploads,
    explicit: options.controlMode === 'explicit',
    apart: parts.timing !== undefined,
    signature: async (name) => (await parts.reader.list()).find((model) => model.name === name)?.signature ?? '',
  });
  const unwatch = directory.watch((change) => {
    if (change.type === 'process') owner.workersChanged();
    else if (change.type === 'owner') {
      owner.ownerChanged(change.model);
      if (directory.owner(change.model) === undefined) state.takeFree();
    } else if (change.type === 'record') owner.recordChanged(change.model);
  });
  /** Gateways have sent again by then what was lost. */
  let hasAllUs = 0;
  const unlisten = parts.transport.onInterruption(() => {
    hasAllUs = clock.nowUs() + (parts.timing?.resend_max_ms ?? 0) * 1000;
    owner.interrupted();
  });
  const hideDesired = addDesiredWorkersMetric(parts.registry, models, owner.onDemand);
  const unlink = () => {
    hideDesired();
    unwatch();
    unlisten();
  };
  receivers = {
    clock,
    log,
    mailbox,
    directory,
    models,
    keeper,
    notes,
    hasAll: () => !stopping() && clock.nowUs() >= hasAllUs,
    intake,
    owner,
    changes,
    jobs,
    passOn,
  };
  const bulk = openBulkRuns(parts, models, stopping);
  return { mailbox, metrics, intake, jobs, bulk, ensembleCalls, owner, changes, ticks: createTicks(clock), unlink };
}

/** An ensemble's model is wanted as long as nobody unloads it, and is lost without that where its owner dies. */
function imply(desired: DesiredModels, name: string, log: Log): void {
  const isWanted = (entry: DesiredModel | undefined) => entry !== undefined && entry.unloaded !== true;
  if (desired.current() === undefined || isWanted(desired.current()?.get(name))) return;
  const add = desired.change((all) => {
    if (!isWanted(all.get(name))) all.set(name, { implicit: true });
  });
  add.catch((error) => log.warn({ err: error, model: name }, 'not noted as wanted by an ensemble'));
}
