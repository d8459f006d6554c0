import type { ModelConfig } from './gen/model_config_pb.ts';

/** Whether the model's answers may be kept and given again; a config check refuses it with decoupled answers or sequences. */
export function cachesAnswers({ responseCache }: Pick<ModelConfig, 'responseCache'>): boolean {
  return responseCache?.enable === true;
}
