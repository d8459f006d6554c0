import { UNLOADED } from '@nereid/protocol';
import type { FindModel } from './check-ensemble-models.ts';
import { ensembleSignature } from './ensemble.ts';
import type { ModelConfig } from './gen/model_config_pb.ts';
import type { VersionRecord } from './model-record.ts';

/** Ours: no version folder is served as 0, so it is never meant. */
const LEFT_OUT = ' A model_version that is left out is 0: write model_version: -1 for the greatest version.';

/**
 * Why an ensemble cannot be served while its models are in the states that their records tell, in Triton's words, or
 * undefined where each step has a version (core's model_repository_manager.cc, CheckNode). Of a model of which nothing is
 * known `checkEnsembleModels` tells.
 */
export function ensembleReadiness(config: ModelConfig, find: FindModel): string | undefined {
  for (const { model, version } of ensembleSignature(config)?.steps ?? []) {
    const versions = find(model)?.versions;
    if (versions === undefined) continue;
    const ready = versions.filter(({ state }) => state === 'READY');
    const depends = `ensemble '${config.name}' depends on '${model}'`;
    if (ready.length === 0) return `${depends} which has no loaded version.${failureOf(model, versions)}`;
    if (version !== '' && !ready.some((each) => each.version === version)) {
      return `${depends} whose required version ${version} is not loaded.${version === '0' ? LEFT_OUT : ''}`;
    }
  }
  return undefined;
}

function failureOf(model: string, versions: readonly VersionRecord[]): string {
  const failed = versions.filter(({ state, reason }) => state === 'UNAVAILABLE' && reason !== UNLOADED);
  if (failed.length === 0) return '';
  const lines = failed.map(({ version, reason }) => `version ${version} is at UNAVAILABLE state: ${reason};`);
  return ` Model '${model}' loading failed with error: ${lines.join('\n')}`;
}
