import { clone, create } from '@bufbuild/protobuf';
import { type FindModel, isDecoupledEnsemble } from './check-ensemble-models.ts';
import { ensembleSignature } from './ensemble.ts';
import { type ModelConfig, ModelConfigSchema, ModelTransactionPolicySchema } from './gen/model_config_pb.ts';
import type { ModelRecord } from './model-record.ts';

type Labels = ModelRecord['labels'];

/**
 * A copy of an ensemble's config and labels with what its models tell, whose records are complete themselves: it is
 * decoupled where one of its steps is, whatever it says itself, and an output without labels has those of the model
 * output that it comes from (core/src/ensemble_utils.cc, ValidateEnsembleConfig; ensemble_scheduler.cc, no_label_tensors).
 * The config of any other model comes back as it is.
 */
export function completeEnsemble(
  { config, labels }: { readonly config: ModelConfig; readonly labels: Labels },
  find: FindModel,
): { readonly config: ModelConfig; readonly labels: Labels } {
  const graph = ensembleSignature(config);
  if (graph === undefined) return { config, labels };
  const completed = clone(ModelConfigSchema, config);
  const decoupled = isDecoupledEnsemble(config, find);
  completed.modelTransactionPolicy = create(ModelTransactionPolicySchema, { decoupled });
  const sources = new Map(
    graph.steps.flatMap(({ model, outputs }) => outputs.map(({ name, tensor }) => [tensor, { model, name }] as const)),
  );
  const told = new Map<string, readonly string[]>();
  for (const { name, labelFilename } of config.output) {
    const source = sources.get(name);
    const lines =
      labelFilename === '' ? labelsOf(source && find(source.model), source?.name) : labelsOf({ labels }, name);
    if (lines !== undefined) told.set(name, lines);
  }
  return { config: completed, labels: Object.fromEntries(told) };
}

/** By the object's own names: an output may be called as what any object has. */
function labelsOf(record: Pick<ModelRecord, 'labels'> | undefined, output = ''): readonly string[] | undefined {
  return record !== undefined && Object.hasOwn(record.labels, output) ? record.labels[output] : undefined;
}
