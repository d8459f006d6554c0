/** How the repositories are used. */
import { z } from 'zod';
import { flagMetas, MODEL_ROLES } from './flag-meta.ts';

export const REPOSITORY_POLL_SECS = 15;
/** As long as a timer can run. */
export const REPOSITORY_POLL_SECS_MAX = 2_000_000;

export const MODEL_LOAD_RETRIES_MAX = 1_000;

export const repositoryOptions = {
  modelLoadRetryCount: z.int().min(0).max(MODEL_LOAD_RETRIES_MAX).default(0).register(flagMetas, {
    topic: 'Models',
    roles: MODEL_ROLES,
    description: 'How often a worker tries again to start the instances of a version where one of them cannot be.',
  }),
  repositoryPollSecs: z.int().min(0).max(REPOSITORY_POLL_SECS_MAX).default(REPOSITORY_POLL_SECS).register(flagMetas, {
    topic: 'Models',
    roles: MODEL_ROLES,
    description: 'In poll mode: seconds between two looks at the repositories; 0 for none.',
  }),
  modelNamespacing: z.boolean().default(false).register(flagMetas, {
    topic: 'Models',
    roles: MODEL_ROLES,
    description:
      'Let repositories hold models of the same name, which are then asked for as `<repository>::<name>`. Without it none of them is available.',
  }),
};
