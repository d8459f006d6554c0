import { createHash } from 'node:crypto';
import {
  bytesByDevice,
  type ModelConfig,
  missingGpus,
  missingLabels,
  placementRule,
  resolveInstances,
} from '@nereid/config';
import type { ProcessId } from '@nereid/protocol';
import type { PlacementWorker } from '@nereid/scheduler';
import type { ProcessRecord } from '@nereid/transport';
import type { OwnedModel, WorkerView } from './owned-model.ts';

/** The workers that live, as they stand to a model of so many bytes per instance. `failed`: what each lacks as it turned out. */
export function placementWorkers(
  model: OwnedModel,
  processes: readonly ProcessRecord[],
  bytes: number,
  failed: ReadonlyMap<ProcessId, string>,
): readonly PlacementWorker[] {
  const { config } = model.source;
  return processes.map(({ id, draining, hosting }) => {
    const resolved = resolveInstances(config, hosting?.gpus ?? 0);
    return {
      id,
      lacks: draining ? 'it ends' : (failed.get(id) ?? lacking(resolved, hosting)),
      holds: holdsNow(model, model.workers.get(id)),
      cost: bytesByDevice(resolved, bytes),
      devices: hosting?.memory ?? [],
      drawn: createHash('sha1').update(`${model.name}\0${id}`).digest('hex'),
    };
  });
}

/** A worker of a build that tells nothing of itself is believed to have all. */
function lacking(config: ModelConfig, hosting: ProcessRecord['hosting']): string {
  if (hosting === undefined) return '';
  const labels = missingLabels(placementRule(config).labels, hosting.labels);
  return labels === '' ? (missingGpus(config, hosting.gpus) ?? '') : `no worker carries ${labels}`;
}

/** Whether the worker was told to hold the model, and has it. */
export function holdsNow({ load }: OwnedModel, view: WorkerView | undefined): PlacementWorker['holds'] {
  if (view === undefined || view.draining || view.told !== 'load') return 'no';
  const held = [...view.versions.values()].filter((version) => (version.load ?? 0) === load);
  return held.length > 0 && held.every(({ state }) => state === 'READY') ? 'ready' : 'loading';
}
