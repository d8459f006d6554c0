import type { ModelRecord } from '@nereid/config';
import type { ErrorInfo, PlaceMessage } from '@nereid/protocol';
import type { Clock } from '@nereid/runtime';
import type { Directory, ProcessRecord } from '@nereid/transport';
import type { OwnerQuestions } from './owner-questions.ts';
import type { Result } from './result.ts';

/** A device of all workers together. */
export interface DeviceCapacity {
  readonly device: string;
  readonly workers: number;
  /** Of those that have a budget for it; null where none has. */
  readonly budget_bytes: number | null;
  readonly used_bytes: number;
  readonly free_bytes: number | null;
}

/** Where models are held, in the whole cluster. */
export interface Placements {
  /**
   * Does what is asked and tells where the model is held and why, in JSON. Never rejects: NOT_FOUND for an unknown model,
   * UNAVAILABLE where its owner does not answer in time.
   */
  of(model: string, action: PlaceMessage['action']): Promise<Result<string>>;
  workers(): readonly ProcessRecord[];
  /** By device. */
  capacity(): readonly DeviceCapacity[];
}

export interface PlacementsParts {
  readonly clock: Clock;
  readonly directory: Directory<ModelRecord>;
  readonly questions: OwnerQuestions;
  /** How long a caller waits. */
  readonly wait_ms: number;
}

export function createPlacements({ clock, directory, questions, wait_ms }: PlacementsParts): Placements {
  const workers = () => [...directory.processes('worker')].sort((a, b) => (a.id < b.id ? -1 : 1));
  return {
    async of(model, action) {
      if (directory.record(model) === undefined) return { ok: false, error: unknownModel(model) };
      const untilUs = clock.nowUs() + wait_ms * 1000;
      const message = (epoch: PlaceMessage['epoch'], id: string) =>
        ({ kind: 'place', model, epoch, id, action }) as const;
      const answer = await questions.ask(model, untilUs, message, true);
      if (typeof answer === 'object' && answer.kind === 'placed') return { ok: true, value: answer.report };
      return { ok: false, error: notTold(model) };
    },
    workers,
    capacity() {
      const devices = new Map<string, DeviceCapacity>();
      for (const { hosting } of workers()) {
        for (const { device, budget, used } of hosting?.memory ?? []) {
          const sum = devices.get(device) ?? {
            device,
            workers: 0,
            budget_bytes: null,
            used_bytes: 0,
            free_bytes: null,
          };
          devices.set(device, {
            device,
            workers: sum.workers + 1,
            budget_bytes: budget === null ? sum.budget_bytes : (sum.budget_bytes ?? 0) + budget,
            used_bytes: sum.used_bytes + used,
            free_bytes: budget === null ? sum.free_bytes : (sum.free_bytes ?? 0) + Math.max(0, budget - used),
          });
        }
      }
      return [...devices.values()].sort((a, b) => (a.device < b.device ? -1 : 1));
    },
  };
}

function unknownModel(model: string): ErrorInfo {
  return { code: 'NOT_FOUND', message: `no coordinator owns a model '${model}'`, field: 'model' };
}

function notTold(model: string): ErrorInfo {
  const message = `the coordinator that owns model '${model}' did not tell its placement in time; try again`;
  return { code: 'UNAVAILABLE', message };
}
