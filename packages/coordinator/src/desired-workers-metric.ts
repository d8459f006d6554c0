import { labelsText, placementRule } from '@nereid/config';
import { addSampledMetric, type Registry } from '@nereid/runtime';
import type { OnDemand } from './on-demand.ts';
import { hasQueues, isEnsemble, type OwnedModel } from './owned-model.ts';

const NAME = 'nereid_desired_workers';

/** Exports how many workers the work of each model wants, for who starts and stops workers. Returns how to take it away. */
export function addDesiredWorkersMetric(
  registry: Registry,
  models: ReadonlyMap<string, OwnedModel>,
  onDemand: Pick<OnDemand, 'desired'>,
): () => void {
  function* samples() {
    for (const model of models.values()) {
      if (isEnsemble(model) || !hasQueues(model)) continue;
      const labels = labelsText(placementRule(model.source.config).labels);
      yield { labels: { model: model.name, labels }, value: onDemand.desired(model) };
    }
  }
  addSampledMetric(registry, {
    name: NAME,
    type: 'gauge',
    help: 'Workers that the waiting and running work of a model wants, by the labels that they must carry',
    labelNames: ['model', 'labels'],
    samples,
  });
  return () => registry.removeSingleMetric(NAME);
}
