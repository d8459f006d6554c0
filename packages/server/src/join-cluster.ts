import {
  DESIRED_VALUE,
  decodeDesiredState,
  encodeDesiredState,
  type ModelRecord,
  type RepositorySetup,
  setupDifference,
} from '@nereid/config';
import { NereidError } from '@nereid/protocol';
import { changeValue, type Directory } from '@nereid/transport';
import type { ServerOptions } from './server-options.ts';

/**
 * Throws INVALID_ARG with both values where the cluster uses its repositories otherwise than this process. The first
 * process of a cluster that reads them says how; what is served is for a coordinator to say.
 */
export async function joinCluster(directory: Directory<ModelRecord>, options: ServerOptions): Promise<void> {
  const setup: RepositorySetup = {
    controlMode: options.modelControlMode ?? 'none',
    repositories: options.modelRepositories,
    namespacing: options.modelNamespacing ?? false,
  };
  await changeValue(directory, DESIRED_VALUE, (text) => {
    const cluster = decodeDesiredState(text);
    const difference = cluster === undefined ? undefined : setupDifference(cluster, setup);
    if (difference !== undefined) throw new NereidError('INVALID_ARG', difference);
    return text ?? encodeDesiredState(setup);
  });
}
