import { expect, it } from 'vitest';
import { nearestName } from './flag-nearest.ts';

it.each<[string, string | undefined]>([
  ['http-port', 'http-port'],
  ['htp-port', 'http-port'],
  ['http_port', 'http-port'],
  ['grcp-port', 'grpc-port'],
  ['model-repo', 'model-repository'],
  ['xyz', undefined],
  ['h', undefined],
  ['', undefined],
  ['http-port'.repeat(20), undefined],
])('nearest to %j is %j', (name, nearest) => {
  expect(nearestName(name, ['grpc-port', 'http-port', 'http-address', 'model-repository'])).toBe(nearest);
});
