import { addSampledMetric, type Labels, type Registry, type Sample } from '@nereid/runtime';
import type { SequenceRow } from './sequence-list.ts';

export const SEQUENCE_METRIC = 'nereid_sequences';

/** Exports how many sequences live, by whether they have a slot or wait for one. */
export function addSequenceMetric(
  registry: Registry,
  labelNames: readonly string[],
  shown: () => Iterable<{ readonly labels: Labels; readonly sequences: Iterable<SequenceRow> }>,
): void {
  function* samples(): Generator<Sample> {
    for (const { labels, sequences } of shown()) {
      let slots = 0;
      let backlog = 0;
      for (const { place } of sequences) {
        if (place === null) backlog++;
        else slots++;
      }
      yield { labels: { ...labels, place: 'slot' }, value: slots };
      yield { labels: { ...labels, place: 'backlog' }, value: backlog };
    }
  }
  addSampledMetric(registry, {
    name: SEQUENCE_METRIC,
    type: 'gauge',
    help: 'Sequences that live, by whether they have a slot or wait for one',
    labelNames: [...labelNames, 'place'],
    samples,
  });
}
