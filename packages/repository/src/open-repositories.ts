import type { Clock } from '@nereid/runtime';
import { openAzure } from './cloud/azure-store.ts';
import { cloudCredentials, type Environment } from './cloud/cloud-credentials.ts';
import { type CloudPlace, cloudPlace } from './cloud/cloud-place.ts';
import { cloudRepository } from './cloud/cloud-repository.ts';
import { openGcs } from './cloud/gcs-store.ts';
import { checkMountDirectory, modelsFolder } from './cloud/model-folders.ts';
import type { ObjectStore } from './cloud/object-store.ts';
import { openS3 } from './cloud/s3-store.ts';
import { localRepository } from './local-repository.ts';
import { joinRepositories, type Repositories } from './repositories.ts';
import type { RepositorySource } from './repository-source.ts';

export interface RepositorySettings {
  /** Where clouds' credentials and folders are looked for. */
  readonly environment: Environment;
  readonly clock: Clock;
  /** See joinRepositories; false by default. */
  readonly namespacing?: boolean;
}

/**
 * The repositories of a process: local folders, and buckets by their URLs (`s3://`, `gs://`, `as://`). Throws
 * INVALID_ARG where one is named wrongly, or the environment has settings for it that cannot be used. Clouds are not
 * asked yet, nor are their SDKs loaded.
 */
export async function openRepositories(places: readonly string[], settings: RepositorySettings): Promise<Repositories> {
  const clouds = places.map((place) => cloudPlace(place));
  for (const kind of new Set(clouds.flatMap((cloud) => cloud?.kind ?? []))) {
    await checkMountDirectory(kind, settings.environment);
  }
  return joinRepositories(
    places.map((place, index) => {
      const cloud = clouds[index];
      return cloud === undefined ? localRepository(place) : openCloud(cloud, settings);
    }),
    settings,
  );
}

function openCloud(place: CloudPlace, { environment, clock }: RepositorySettings): RepositorySource {
  const open = storeOf(place, environment);
  return cloudRepository({ place, open, makeRoot: () => modelsFolder(place.kind, environment), clock });
}

/** Credentials are read now, so that a wrong file ends the start. */
function storeOf(place: CloudPlace, environment: Environment): () => Promise<ObjectStore> {
  const { kind, url } = place;
  if (kind === 's3') {
    const credentials = cloudCredentials(kind, url, environment);
    return () => openS3(place, credentials);
  }
  if (kind === 'gs') {
    const credentials = cloudCredentials(kind, url, environment);
    return () => openGcs(place, credentials);
  }
  const credentials = cloudCredentials(kind, url, environment);
  return () => openAzure(place, credentials);
}
