import { expect, test } from 'vitest';
import { modelRecordOf, startedCluster } from './fake-apart.ts';

test('a record that nobody owns any more goes, by the coordinator with the lowest id', async () => {
  const world = await startedCluster();
  await world.startAnother('co-2');
  await world.directory.publish('x', { ...modelRecordOf('m', world), name: 'x' });
  await world.pass(2_000);
  await world.pass(2_000);
  await world.pass(2_000);
  expect(world.directory.record('x')).toBeDefined();
  await world.pass(2_000);
  expect(world.directory.records().map(({ name }) => name)).toEqual(['m']);
});
