import type { ApiCategory } from '../restricted.ts';

const MODEL = '/v2/models/[^/]+(?:/versions/[0-9]+)?';

/**
 * Which group of `--http-restricted-api` a path belongs to (the calls of http_server.cc). Of our own
 * routes jobs, those that died, the page of their queues, and recordings are inference, queues, sequences and what explains requests are statistics, aliases and where models are held are of the repository, and the description of the models is metadata.
 */
const CATEGORIES: readonly (readonly [ApiCategory, RegExp])[] = [
  ['health', new RegExp(`^(?:/v2/health/(?:live|ready)|${MODEL}/ready)$`)],
  // Before the metadata of a model of that name, which it hides.
  [
    'statistics',
    new RegExp(`^(?:/v2/models/stats|${MODEL}/stats|/nereid/v1/(?:queues|sequences(?:/.+)?|explain/.+))$`),
  ],
  ['metadata', new RegExp(`^(?:/v2|${MODEL}|/openapi(?:\\.json|/.*)?)$`)],
  ['model-config', new RegExp(`^${MODEL}/config$`)],
  [
    'inference',
    new RegExp(
      `^(?:${MODEL}/(?:infer|generate|generate_stream|jobs|jobs/.+|batches)|/v2/(?:jobs|batches|blobs)(?:/.+)?|/nereid/v1/(?:deadletters|journal)(?:/.+)?|/bull-board(?:/.*)?)$`,
    ),
  ],
  ['trace', /^\/v2(?:\/models\/[^/]+)?\/trace\/setting$/],
  ['logging', /^\/v2\/logging$/],
  [
    'model-repository',
    /^(?:\/v2\/repository\/.+|\/nereid\/v1\/(?:aliases(?:\/.+)?|workers|capacity|models\/[^/]+\/(?:placement|pin|prefetch)))$/,
  ],
  ['shared-memory', /^\/v2\/(?:system|cuda)sharedmemory\/.+$/],
];

/** The group of a path without its query; undefined for one that no group has. */
export function apiCategory(path: string): ApiCategory | undefined {
  return CATEGORIES.find(([, pattern]) => pattern.test(path))?.[0];
}
