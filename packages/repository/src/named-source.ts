import { createHash } from 'node:crypto';
import { decodeModelConfig, encodeModelConfig, type ModelSource } from '@nereid/config';

/**
 * A model as it is asked for: under its name in place of its folder's, and of an ensemble with the names of the models that
 * its steps mean. These count as its files do: with others it is another model.
 */
export function namedSource(source: ModelSource, name: string, stepName: (step: string) => string): ModelSource {
  const config = decodeModelConfig(encodeModelConfig(source.config));
  const { schedulingChoice: scheduling } = config;
  const steps = scheduling.case === 'ensembleScheduling' ? scheduling.value.step : [];
  const means = steps.filter((step) => stepName(step.modelName) !== step.modelName);
  if (source.name === name && means.length === 0) return source;
  config.name = name;
  for (const step of means) step.modelName = stepName(step.modelName);
  if (means.length === 0) return { ...source, name, config };
  const hash = createHash('sha256').update(source.contentHash);
  for (const { modelName } of steps) hash.update(JSON.stringify(modelName));
  return { ...source, name, config, contentHash: hash.digest('hex') };
}
