import { expect, it } from 'vitest';
import type { ApiCategory } from '../restricted.ts';
import { apiCategory } from './api-category.ts';

const PATHS: Readonly<Record<ApiCategory, readonly string[]>> = {
  health: ['/v2/health/live', '/v2/health/ready', '/v2/models/m/ready', '/v2/models/m/versions/1/ready'],
  metadata: ['/v2', '/v2/models/m', '/v2/models/m/versions/1', '/openapi', '/openapi.json'],
  'model-config': ['/v2/models/m/config', '/v2/models/m/versions/1/config'],
  inference: [
    '/v2/models/m/infer',
    '/v2/models/m/versions/1/infer',
    '/v2/models/m/generate',
    '/v2/models/m/versions/1/generate_stream',
    '/v2/models/m/jobs',
    '/v2/models/m/jobs/queue',
    '/v2/jobs/m~1',
    '/v2/jobs/m~1/result',
    '/v2/jobs',
  ],
  statistics: ['/v2/models/stats', '/v2/models/m/stats', '/v2/models/m/versions/1/stats', '/nereid/v1/queues'],
  trace: ['/v2/trace/setting', '/v2/models/m/trace/setting'],
  logging: ['/v2/logging'],
  'model-repository': [
    '/v2/repository/index',
    '/v2/repository/r/index',
    '/v2/repository/models/m/load',
    '/v2/repository/r/models/m/unload',
    '/nereid/v1/aliases',
    '/nereid/v1/aliases/a/promote',
  ],
  'shared-memory': [
    '/v2/systemsharedmemory/status',
    '/v2/systemsharedmemory/region/r/register',
    '/v2/cudasharedmemory/unregister',
  ],
};

it.each(Object.entries(PATHS).flatMap(([category, paths]) => paths.map((path) => [path, category])))(
  '%s is of the group %s',
  (path, category) => {
    expect(apiCategory(path)).toBe(category);
  },
);

it.each(['/', '/v3', '/v2/strange', '/metrics', '/v2/models/m/versions/x'])('%s is of none', (path) => {
  expect(apiCategory(path)).toBeUndefined();
});
