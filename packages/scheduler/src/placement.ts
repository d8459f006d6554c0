import { bytesText } from './bytes-text.ts';
import type { DeviceBytes } from './memory-budget.ts';

/** What is known of a worker's device; beliefs may lag, and the worker has the last word. */
export interface PlacementDevice {
  readonly device: string;
  /** Null: without a bound. */
  readonly budget: number | null;
  readonly used: number;
  /** Of that: what does not go for others. */
  readonly fixed: number;
  /** How long what would go first has been idle; null where nothing may go. */
  readonly idle_ms: number | null;
}

export interface PlacementWorker {
  readonly id: string;
  /** What it lacks to take the model at all, '' for nothing. */
  readonly lacks: string;
  readonly holds: 'ready' | 'loading' | 'no';
  /** What the model takes there. */
  readonly cost: DeviceBytes;
  readonly devices: readonly PlacementDevice[];
  /** Drawn by the model for the worker: the highest goes first among equals. */
  readonly drawn: string;
}

/** How a worker stands to a model, the best first. */
const STANDINGS = ['ready', 'loading', 'room', 'evicts', 'waits', 'never', 'lacks'] as const;
export type PlacementStanding = (typeof STANDINGS)[number];

export interface ConsideredWorker {
  readonly worker: string;
  readonly standing: PlacementStanding;
  /** In words, with figures. */
  readonly why: string;
}

export interface Placement {
  /** Undefined where no worker can take the model. */
  readonly chosen: string | undefined;
  /** The best first. */
  readonly considered: readonly ConsideredWorker[];
}

interface Judged extends ConsideredWorker {
  readonly idleMs: number;
  readonly drawn: string;
}

/**
 * The worker that is to load a model: one that holds it, then one with room for it, then the one where what goes for it
 * has been idle for longest, then one where it waits. Those who choose for different models at a time go different ways
 * among equals.
 */
export function choosePlacement(workers: readonly PlacementWorker[]): Placement {
  const judged = workers.map(judge);
  judged.sort(
    (a, b) =>
      STANDINGS.indexOf(a.standing) - STANDINGS.indexOf(b.standing) ||
      b.idleMs - a.idleMs ||
      (a.drawn < b.drawn ? 1 : a.drawn > b.drawn ? -1 : 0),
  );
  const [best] = judged;
  const takes = best !== undefined && best.standing !== 'never' && best.standing !== 'lacks';
  return {
    chosen: takes ? best.worker : undefined,
    considered: judged.map(({ worker, standing, why }) => ({ worker, standing, why })),
  };
}

function judge({ id, lacks, holds, cost, devices, drawn }: PlacementWorker): Judged {
  const is = (standing: PlacementStanding, why: string, idleMs = 0): Judged => {
    return { worker: id, standing, why, idleMs, drawn };
  };
  if (lacks !== '') return is('lacks', lacks);
  if (holds === 'ready') return is('ready', 'holds it');
  if (holds === 'loading') return is('loading', 'is loading it');
  const bounded = Object.entries(cost).flatMap(([name, bytes]) => {
    const device = devices.find((each) => each.device === name);
    return device === undefined || device.budget === null ? [] : [{ ...device, budget: device.budget, bytes }];
  });
  const never = bounded.find(({ bytes, budget, fixed }) => bytes > budget - fixed);
  if (never !== undefined) {
    const room = bytesText(never.budget - never.fixed);
    return is('never', `it needs ${bytesText(never.bytes)} on ${never.device}, where ${room} can be had at most`);
  }
  const short = bounded.filter(({ bytes, budget, used }) => used + bytes > budget);
  const [first] = short;
  if (first === undefined) return is('room', bounded.map(freeText).join(', ') || 'has no memory budget');
  const idle = short.map(({ idle_ms }) => idle_ms);
  const isIdle = idle.every((ms) => ms !== null);
  if (!isIdle) return is('waits', `${freeText(first)}, and nothing there may go now`);
  const idleMs = Math.min(...idle);
  return is('evicts', `${freeText(first)}; what goes first has been idle for ${Math.round(idleMs)} ms`, idleMs);
}

function freeText({ device, budget, used }: { device: string; budget: number; used: number }): string {
  return `${bytesText(Math.max(0, budget - used))} of ${bytesText(budget)} are free on ${device}`;
}
